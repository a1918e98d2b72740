"""Seeds: what may be one, and the randomness that starts from it."""

from __future__ import annotations

import torch

from catnf.errors import InputError


def check_seed(seed: int | None) -> None:
    """Raise `InputError` for what is no seed; `None`, for none, is fine."""
    if seed is not None and not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}; give an integer from 0 to {2**32 - 1}.")


def seeded_generator(seed: int | None, device: torch.device | str) -> torch.Generator:
    """A source of random numbers: the same ones for the same seed, others every time without one."""
    check_seed(seed)
    generator = torch.Generator(device=device)
    generator.manual_seed(seed) if seed is not None else generator.seed()
    return generator
