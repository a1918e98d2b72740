"""Muon on stacked matrices."""

from __future__ import annotations

import pytest
import torch

from catnf.training.muon import Muon, Stack, orthogonalize


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_orthogonal_factors_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape) * torch.tensor([1e-3, 1.0, 1e3]).view(3, 1, 1)
    result = orthogonalize(matrices)
    assert result.shape == matrices.shape
    values = torch.linalg.svdvals(result)
    assert float(values.max()) < 1.3
    assert float(values.min()) > 0.3
    # The same singular vectors: the product with the input is nearly the input's positive factor.
    product = result.mT @ matrices
    torch.testing.assert_close(product, product.mT, rtol=0.0, atol=1e-3 * float(product.abs().max()))


def test_a_matrix_of_zeros_stays_zero() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 3, 3)), torch.zeros(2, 3, 3))


def test_stacks_move_like_single_matrices_and_padding_stays() -> None:
    """Two matrices of 4 x 3 and one of 2 x 5, each padded to 16 numbers, and a tail that is not Muon's."""
    stacks = [Stack(0, 2, 4, 3, 16), Stack(32, 1, 2, 5, 16)]
    values, rate = torch.randn(60), torch.tensor(0.1)
    before = values.clone()
    gradient = torch.zeros(60)
    muon = Muon(values, gradient, stacks, rate)
    places = [(0, 4, 3), (16, 4, 3), (32, 2, 5)]
    expected = [before[o : o + r * c].view(r, c).clone() for o, r, c in places]
    means = [torch.zeros(r, c) for _, r, c in places]
    for _ in range(3):
        for index, (offset, rows, columns) in enumerate(places):
            g = torch.randn(rows, columns)
            gradient[offset : offset + rows * columns] = g.flatten()
            means[index] = 0.95 * means[index] + 0.05 * g
            ahead = 0.05 * g + 0.95 * means[index]
            scale = max(1.0, rows / columns) ** 0.5
            expected[index] -= 0.1 * scale * orthogonalize(ahead[None])[0]
        muon.step()
    touched = torch.zeros(60, dtype=torch.bool)
    for matrix, (offset, rows, columns) in zip(expected, places, strict=True):
        touched[offset : offset + rows * columns] = True
        torch.testing.assert_close(values[offset : offset + rows * columns].view(rows, columns), matrix)
    assert torch.equal(values[~touched], before[~touched])
