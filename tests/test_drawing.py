"""Pictures are written, and requests that cannot be drawn are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from catnf.context import Context, SetContext
from catnf.drawing import encoding_picture, loss_curve
from catnf.encodings.encoding import Encoded, Encoding
from catnf.errors import InputError, StorageError


class FixedMixture(Encoding):
    """Logistic distributions at fixed places, decoded by Bayes' rule with a uniform prior."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__(*mean.shape)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        z = ctx.hide(self.mean[x] + self.scale[x] * noise)
        own = x[..., None]
        return Encoded(
            z,
            ctx.total(self.posterior(z, ctx).gather(-1, own)),
            ctx.total(self._log_density(z).gather(-1, own)),
        )

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        return self._log_density(z).log_softmax(-1)

    def _log_density(self, z: Tensor) -> Tensor:
        u = (z[..., None, :] - self.mean) / self.scale
        return (-u - 2 * torch.nn.functional.softplus(-u) - self.scale.log()).sum(-1)


def mixture(categories: int, channels: int = 2) -> FixedMixture:
    generator = torch.Generator().manual_seed(3)
    mean = 3.0 * torch.randn(categories, channels, generator=generator)
    return FixedMixture(mean, 0.15 + 0.25 * torch.rand(categories, channels, generator=generator))


def is_png(path: Path) -> bool:
    data = path.read_bytes()
    return data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) > 5_000


@pytest.mark.parametrize("count", [1, 30, 2000])
def test_loss_curve(tmp_path: Path, count: int) -> None:
    steps = np.arange(count) * 50
    bits = 2.77 + 1.2 * np.exp(-steps / 9000) + 30 * np.exp(-steps / 300)
    bits = bits + 0.03 * np.random.default_rng(0).normal(size=count)
    path = loss_curve(tmp_path / "new" / "loss.png", steps.tolist(), bits.tolist(), 2.7656, "sets/shuffling")
    assert is_png(path)


def test_loss_curve_leaves_out_what_is_not_finite(tmp_path: Path) -> None:
    assert is_png(loss_curve(tmp_path / "loss.png", [0, 1, 2, 3], [float("inf"), 3.0, float("nan"), 2.5]))


def test_loss_curve_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 steps but 1 losses"):
        loss_curve(tmp_path / "loss.png", [0, 1], [1.0])
    with pytest.raises(InputError, match="no finite losses"):
        loss_curve(tmp_path / "loss.png", [0], [float("nan")])
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="a part of its path is a file"):
        loss_curve(tmp_path / "file" / "loss.png", [0, 1], [2.0, 1.0])


@pytest.mark.parametrize("categories", [1, 3, 16])
def test_encoding_picture(tmp_path: Path, categories: int) -> None:
    encoding = mixture(categories).train()
    path = encoding_picture(tmp_path / "encoding.png", encoding, title="toy", samples=3000, grid=200)
    assert is_png(path)
    assert encoding.training


def test_encoding_picture_of_examples_with_padding(tmp_path: Path) -> None:
    def padded(x: Tensor) -> Context:
        mask = torch.ones_like(x, dtype=torch.bool)
        mask[:, 4:] = False
        return SetContext.of(x, mask)

    examples = torch.arange(3).repeat(500, 2)  # categories 3 and 4 never occur
    labels = ["C", "N", "O", "F", "P"]
    path = encoding_picture(
        tmp_path / "encoding.png", mixture(5), padded, examples=examples, labels=labels, grid=100
    )
    assert is_png(path)


def test_encoding_picture_does_not_change_the_global_generator(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    first = encoding_picture(tmp_path / "a.png", mixture(3), samples=200, grid=50).read_bytes()
    second = encoding_picture(tmp_path / "b.png", mixture(3), samples=200, grid=50).read_bytes()
    assert first == second
    assert torch.equal(state, torch.get_rng_state())


def test_encoding_picture_errors(tmp_path: Path) -> None:
    path = tmp_path / "encoding.png"
    with pytest.raises(InputError, match="3 latent channels"):
        encoding_picture(path, mixture(4, channels=3))
    with pytest.raises(InputError, match="2 labels for 4 categories"):
        encoding_picture(path, mixture(4), labels=["a", "b"])
    with pytest.raises(InputError, match="not finite"):
        encoding_picture(path, FixedMixture(torch.full((2, 2), torch.nan), torch.ones(2, 2)))
    assert not path.exists()
