"""Trained models: from a bundled name, a run's folder or a file, ready to use."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from catnf.configuration import nearest, to_mapping
from catnf.context import Context
from catnf.errors import InputError, StorageError
from catnf.experiments import Experiment, experiment_names
from catnf.models import Model
from catnf.models.model import importance_weighted
from catnf.nets.network import Network
from catnf.seeds import context_generator, seeded_generator
from catnf.storage import load_tensors, peek_header, save_tensors
from catnf.tasks.task import Task

ZOO = Path(__file__).parent / "zoo"

_PAIRS_AT_ONCE = 1 << 20
_ELEMENTS_AT_ONCE = 1 << 17
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")  # what the name of a shard ends with


@dataclass(frozen=True)
class FittedModel:
    """A trained model together with its task.

    Attributes:
        experiment: what was trained, and how.
        task: the data it was trained on.
        model: the distribution itself.
        seed: of the training.
        provenance: steps, seconds, hardware and revision of the training.
    """

    experiment: Experiment
    task: Task
    model: Model
    seed: int
    provenance: Mapping[str, object]

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.model.parameters()).device

    def digest(self) -> str:
        """SHA-256 of the weights: tells whether two files or folders hold the same model."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {list(tensor.shape)} ".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
        return digest.hexdigest()

    def to(self, device: torch.device | str) -> FittedModel:
        """Move the model, in place, to another device."""
        self.model.to(device)
        return self

    def in_bfloat16(self) -> FittedModel:
        """A copy whose networks compute in bfloat16; flow arithmetic stays in float32."""
        model = copy.deepcopy(self.model)
        for network in model.modules():
            if isinstance(network, Network):
                for parameter in network.parameters():
                    parameter.data = parameter.data.to(torch.bfloat16)
        return replace(self, model=model)

    def sample(
        self,
        count: int,
        seed: int | None = None,
        temperature: float = 1.0,
        chunk: int | None = None,
        ctx: Context | None = None,
    ) -> Tensor:
        """Draw `count` examples `[count, elements]`; the same ones for the same seed.

        With a `ctx` of `count` examples, for instance graphs, they are drawn given that.
        """
        if count < 1:
            raise InputError(f"The number of samples is {count}; give at least 1.")
        if ctx is None:
            ctx = self.sample_context(count, seed)
        ctx.check()
        if ctx.batch != count:
            raise InputError(
                f"{count} samples were asked for with a context of {ctx.batch}; repeat it as needed."
            )
        generator = seeded_generator(seed, self.device)
        parts = []
        chunk = max(1, chunk) if chunk is not None else examples_at_once(ctx)
        for start in range(0, count, chunk):
            piece = ctx.select(start, min(start + chunk, count)).to(self.device)
            parts.append(self.model.sample(piece, generator, temperature).cpu())
        return torch.cat(parts)

    def sample_context(self, count: int, seed: int | None = None) -> Context:
        """What `count` examples are drawn with: from the model where it knows, from its task otherwise."""
        drawn = self.model.draw_context(count, context_generator(seed, self.device))
        return self.task.sample_context(count) if drawn is None else drawn

    def log_prob(
        self,
        x: ArrayLike | Tensor,
        samples: int = 1,
        seed: int | None = None,
        chunk: int = 16_384,
        ctx: Context | None = None,
    ) -> Tensor:
        """The importance-weighted bound of `log p(x)`, in nats: `[batch]`; arguments as in `likelihoods`."""
        return importance_weighted(self.likelihoods(x, samples, seed, chunk, ctx))

    def likelihoods(
        self,
        x: ArrayLike | Tensor,
        samples: int = 1,
        seed: int | None = None,
        chunk: int = 16_384,
        ctx: Context | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Tensor:
        """Draws of lower bounds of `log p(x)`, in nats: `[batch, samples]`, one draw where it is exact.

        Args:
            x: examples `[batch, elements]`, as a tensor, an array or nested lists.
            samples: draws for every example; more tighten the bound that they average to.
            seed: for the same draws again.
            chunk: examples times draws that are processed at once.
            ctx: what belongs to the examples, where it does not follow from them.
            progress: told how many examples are done, of how many.
        """
        try:
            x = torch.as_tensor(x)
        except (ValueError, TypeError) as error:
            raise InputError(f"Examples are rows of whole numbers, all of one length ({error}).") from error
        self.task.check(x)
        if ctx is None:
            ctx = self.task.context(x)
        ctx.check()
        self.model.check(x, ctx)
        generator = seeded_generator(seed, self.device)
        at_once = max(1, chunk // (1 if self.model.exact else max(1, samples)))
        parts = []
        for start in range(0, len(x), at_once):
            piece = ctx.select(start, start + at_once).to(self.device)
            moved = x[start : start + at_once].to(self.device)
            parts.append(self.model.likelihoods(moved, piece, samples, generator, chunk))
            progress(min(start + at_once, len(x)), len(x))
        return torch.cat(parts).cpu()


def examples_at_once(ctx: Context) -> int:
    """How many examples to invert at once: many, but a bounded number of elements, or of pairs of them."""
    if not ctx.pairwise:
        return max(1, min(1024, _ELEMENTS_AT_ONCE // ctx.elements))
    return max(1, min(1024, _PAIRS_AT_ONCE // ctx.elements**2))


def save_model(
    path: Path,
    weights: Mapping[str, Tensor],
    experiment: Experiment,
    seed: int,
    provenance: Mapping[str, object],
    dtype: torch.dtype | None = None,
    shard_bytes: int | None = None,
) -> list[Path]:
    """Write weights and all that is needed to use them; floats in `dtype` where one is given."""
    stored = {
        name: tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor
        for name, tensor in weights.items()
    }
    header = {
        "kind": "model",
        "experiment": to_mapping(experiment),
        "seed": seed,
        "provenance": dict(provenance),
    }
    return save_tensors(path, stored, header, shard_bytes)


def load(name_or_path: str | Path, device: torch.device | str = "cpu") -> FittedModel:
    """A bundled model by its experiment's name, or a trained one by its run's folder or file.

    Example:
        >>> import catnf
        >>> catnf.load("sets/shuffling/mixture").sample(2).shape
        torch.Size([2, 16])
    """
    device = torch.device(device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"There is no GPU for device {device}; use cpu.")
    path = _locate(name_or_path)
    tensors, header = load_tensors(path)
    kind = header.get("kind")
    if kind == "table":
        raise InputError(
            f"{path} is a model of a table; use `catnf sample`, `score` or `report`, in Python "
            "catnf.tabular.CategoricalFlow.load."
        )
    if kind not in ("model", "checkpoint"):
        raise StorageError(f"{path} holds no model; give a model.safetensors or a run's folder.")
    try:
        experiment, seed = Experiment.from_header(header["experiment"]), int(header["seed"])
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{path} has a configuration that this catnf cannot read: {error}") from error
    task = experiment.make_task()
    model = experiment.make_model(task, seed=0)
    weights = tensors if kind == "model" else _from_checkpoint(tensors, header.get("layout"), model)
    _fill(model, weights, path)
    provenance = header.get("provenance", {"steps": header.get("step"), "seconds": header.get("seconds")})
    return FittedModel(experiment, task, model.to(device).eval(), seed, provenance)


def is_table_model(name: str | Path) -> bool:
    """Whether a path is that of a model of a table, rather than of another one or of nothing."""
    path = Path(name)
    file = path / "model.safetensors" if path.is_dir() else path
    return file.is_file() and peek_header(file).get("kind") == "table"


def bundled_names() -> list[str]:
    """The names of the models inside the package, sorted."""
    files = (path.relative_to(ZOO).with_suffix("") for path in ZOO.rglob("*.safetensors"))
    return sorted({_SHARD.sub("", str(file)) for file in files})


def _locate(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.is_dir():
        # The newest: a run that went on has a checkpoint that is newer than the model of its last stop.
        files = [*path.glob("model*.safetensors"), *path.glob("checkpoint.safetensors")]
        if not files:
            raise StorageError(
                f"The folder {path} holds neither model.safetensors nor checkpoint.safetensors; give that of "
                "a run or of `catnf fit`."
            )
        return max(files, key=lambda file: file.stat().st_mtime_ns)
    if path.suffix == ".safetensors":
        return path
    if path.exists():
        raise StorageError(
            f"{path} is no model; give a bundled one's name (see `catnf list`), the folder of a run or of "
            "`catnf fit`, or a .safetensors file."
        )
    name = str(name_or_path)
    if name in bundled_names():
        return ZOO / f"{name}.safetensors"
    if name in experiment_names():
        raise InputError(
            f"{name} is an experiment without a bundled model; train it with `catnf train {name}` and give "
            "its output folder."
        )
    raise InputError(
        f"There is no bundled model or file {name!r}.{nearest(name, bundled_names())} "
        f"A model you train with `catnf train` is in its output folder."
    )


def _from_checkpoint(tensors: Mapping[str, Tensor], layout: object, model: Model) -> dict[str, Tensor]:
    from catnf.training.flat import FlatParameters
    from catnf.training.selection import stored_best
    from catnf.training.step import stored_buffers

    flat = FlatParameters(model)
    best = stored_best(tensors)
    average = tensors.get("average") if best is None else best
    if average is None or average.shape != flat.values.shape or layout != flat.names:
        return {}  # fits nothing
    return flat.named(average) | stored_buffers(tensors)


def _fill(model: Model, weights: Mapping[str, Tensor], path: Path) -> None:
    expected = model.state_dict()
    wrong = [name for name in expected if name not in weights or weights[name].shape != expected[name].shape]
    if wrong or len(weights) != len(expected):
        raise StorageError(
            f"{path} does not fit its own configuration (first at {(wrong or sorted(weights))[0]!r})."
        )
    model.load_state_dict({name: weights[name].to(expected[name].dtype) for name in expected})
