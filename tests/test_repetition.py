"""Steps that are repeated: with plain indices and with those that a GPU counts, the same comes out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import catnf
from catnf.context import GraphContext
from catnf.repetition import Index, at, put, repeat

CPU = torch.device("cpu")


@pytest.mark.parametrize("times", [1, 2, 9])
def test_every_index_comes_once(device_counts: Callable[[], None], times: int) -> None:
    values, out = torch.randn(3, times), torch.zeros(3, times)

    def double(index: Index) -> None:
        put(out, 1, index, 2 * at(values, 1, index))

    repeat(double, times, CPU)
    assert torch.equal(out, 2 * values)
    out.zero_()
    device_counts()
    repeat(double, times, CPU)
    assert torch.equal(out, 2 * values)


@pytest.mark.parametrize("name", ["molecules/zinc250k/growth-small", "coloring/large/graphcnf-rounds-slim"])
def test_samples_do_not_depend_on_who_counts(name: str, device_counts: Callable[[], None]) -> None:
    fitted = catnf.load(name)
    if name.startswith("coloring"):
        edges = torch.triu(torch.rand(6, 30, 30) < 0.12, 1)
        ctx = GraphContext.of(edges | edges.mT)
    else:
        ctx = fitted.sample_context(6, seed=1)

    def draw() -> Tensor:
        return fitted.sample(6, seed=2, ctx=ctx)

    before = draw()
    device_counts()
    assert torch.equal(draw(), before)
