"""Seeds: what may be one, and the randomness that starts from it."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import torch

from catnf.errors import InputError

_CONTEXT = 1


def check_seed(seed: int | None) -> None:
    """Raise `InputError` for what is no seed; `None`, for none, is fine."""
    if seed is not None and not (isinstance(seed, Integral) and 0 <= seed < 2**32):
        raise InputError(f"seed is {seed}; give an integer from 0 to {2**32 - 1}.")


def seeded_generator(seed: int | None, device: torch.device | str) -> torch.Generator:
    """A source of random numbers: the same ones for the same seed, others every time without one."""
    check_seed(seed)
    generator = torch.Generator(device=device)
    generator.manual_seed(int(seed)) if seed is not None else generator.seed()
    return generator


def context_generator(seed: int | None, device: torch.device | str) -> torch.Generator:
    """Randomness of what samples are drawn given, such as their sizes: apart from that of their latents."""
    check_seed(seed)
    return seeded_generator(None if seed is None else derived_seed(seed, _CONTEXT), device)


def derived_seed(*numbers: int) -> int:
    """A seed that follows from several numbers, and is another one for others."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
