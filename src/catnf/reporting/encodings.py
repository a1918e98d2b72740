"""Tiny flows with two latent channels, trained within seconds, so that their encodings can be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from catnf.context import Context, SetContext
from catnf.drawing import encoding_picture
from catnf.encodings import Encoding
from catnf.encodings.encoding import Encoded
from catnf.experiments import Experiment, load_experiment
from catnf.fitted import FittedModel, load
from catnf.models import CategoricalFlow
from catnf.training.options import RunOptions
from catnf.training.run import train

KINDS: Mapping[str, str] = {"mixture": "Mixture of logistics", "linear": "Linear flow", "latent": "Latent NF"}

_TINY = (
    "task.size=4",
    "model.channels=2",
    "model.layers=3",
    "model.mixtures=4",
    "model.hidden=32",
    "model.heads=2",
    "model.blocks=1",
    "model.encoding_layers=2",
    "model.features=16",
    "training.batch=64",
    "training.learning_rate=1e-2",
    "training.warmup=15",
    "training.average=0.95",
    "training.initialization_batches=4",
    "training.reconstruction_half_life=30",
)
_HOLD = {"latent": ("training.reconstruction_hold=40",)}


def tiny_experiment(kind: str, steps: int) -> Experiment:
    """A flow that shuffles four categories, small enough for seconds of a core."""
    changes = (f"name=tiny {kind}", *_TINY, *_HOLD.get(kind, ()), f"training.steps={steps}")
    return load_experiment(f"sets/shuffling/{kind}", changes)


def train_tiny(kind: str, folder: Path, steps: int, seconds: float) -> Path:
    """Train one of `KINDS` for some steps, at most for some seconds; returns the folder of the run."""
    options = RunOptions(folder / kind, device="cpu", budget=seconds, restart=True, quiet=True)
    train(tiny_experiment(kind, steps), options)
    return folder / kind


def draw_encoding(path: Path, run: Path, title: str, grid: int = 240) -> Path:
    """Draw the encoding of a run with two latent channels into a PNG, with the decoder's partition."""
    fitted = load(run)
    assert isinstance(fitted.model, CategoricalFlow)
    encoding = fitted.model.encoding
    if fitted.experiment.model.kind != "latent":
        return encoding_picture(path, encoding, title=title, grid=grid, samples=4000)
    examples = fitted.task.evaluation("test", 4000)
    return encoding_picture(
        path, _Accompanied.of(encoding, fitted), SetContext.of, examples, title=title, grid=grid // 2
    )


class _Accompanied(Encoding):
    """An encoding whose decoder looks at whole sets, as one that decodes an element alone.

    The others of its set are those of a few encoded sets, over which probabilities are averaged.

    Args:
        whole: the encoding.
        company: latents of the others, `[sets, elements - 1, channels]`.
    """

    def __init__(self, whole: Encoding, company: Tensor) -> None:
        super().__init__(whole.categories, whole.channels)
        self.whole, self.company = whole, company

    @classmethod
    @torch.no_grad()
    def of(cls, whole: Encoding, fitted: FittedModel, sets: int = 8) -> _Accompanied:
        x = fitted.task.evaluation("test", sets)
        latents = whole.encode(x, fitted.task.context(x), torch.Generator().manual_seed(0)).z
        return cls(whole, latents[:, 1:])

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        return self.whole(x, noise, ctx)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        parts = []
        for others in self.company:
            together = torch.cat([z, others.expand(len(z), -1, -1)], dim=1)
            context = SetContext.of(torch.zeros(together.shape[:2], dtype=torch.int64))
            parts.append(self.whole.posterior(together, context)[:, :1])
        return torch.stack(parts).exp().mean(0).log()
