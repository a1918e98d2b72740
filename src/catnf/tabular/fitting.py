"""Sizing a model to its table, and training it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from catnf.context import Context, TableContext
from catnf.encodings.columns import ColumnMixtureEncoding
from catnf.flows.any_order import AnyOrderMixture
from catnf.models.number_flow import NumericFlow
from catnf.models.table_flow import ColumnFlow, TableFlow
from catnf.tabular.coding import Rows, TableCode
from catnf.tasks.task import Split, Task
from catnf.training.config import TrainingConfig
from catnf.training.selection import Selection
from catnf.training.step import TrainingStep

Progress = Callable[[int, int, float | None], None]
"""Is told the steps made, the steps planned, and the best validation bound in bits per column."""

_INITIAL_ROWS = 2048
# Categories start so far apart, in standard deviations of their logistics, that every latent tells its own,
# and stay about there: what is to be learned are the weights of their mixtures.
_APART, _REACH = 12.0, 0.1
_READ_EVERY = 1000  # losses are kept in a buffer of limited length
_EARLY = 0.5  # share of the planned steps up to which a stop is early
_LEAST_PATIENCE = 3  # looks; on credit and car the same weights were best as with ten everywhere
# Steps of the second training, as a multiple of those after which the first was best: its learning rates have
# an end to come to. Chosen on validation rows of credit.
_LONGER = 1.5


@dataclass(frozen=True)
class Sizes:
    """Of a model and its training; chosen from the table by `sizes_for`, and stored with the model."""

    hidden: int
    layers: int
    heads: int
    mixtures: int  # logistics of a number
    batch: int
    steps: int


def sizes_for(code: TableCode, rows: int) -> Sizes:
    """What suits a table: small networks for few rows, wider ones where there is enough to learn from."""
    elements = len(code.sizes) + len(code.numeric)
    hidden = 32 if rows < 5_000 else 48 if rows < 50_000 else 64
    # So that a step of a wide table takes no more memory and little more time than one of a narrow table.
    batch = max(32, min(256 if rows >= 5_000 else 128, 8192 // max(1, elements)))
    steps = 1500 if rows < 5_000 else 2500
    return Sizes(hidden, 2, 4, 16, batch, steps)


def build(code: TableCode, sizes: Sizes, frequencies: Tensor) -> TableFlow:
    """A freshly initialized model; `frequencies: [elements, categories]`."""
    categorical = numeric = None
    late_elements, late_numbers = code.late
    if code.sizes:
        categorical = ColumnFlow(
            ColumnMixtureEncoding(frequencies, 1, _REACH, _APART),
            AnyOrderMixture(frequencies, sizes.hidden, sizes.layers, sizes.heads),
            late_elements,
        )
    if code.numeric:
        numeric = NumericFlow(
            torch.tensor([column.scale for column in code.numeric], dtype=torch.float64),
            torch.tensor([column.kind == "integer" for column in code.numeric]),
            (len(code.sizes), max(code.sizes, default=0)),
            sizes.hidden,
            sizes.layers,
            sizes.heads,
            sizes.mixtures,
            late_numbers,
        )
    return TableFlow(categorical, numeric, torch.tensor(code.sizes, dtype=torch.int64))


class RowsTask(Task):
    """Encoded rows as the training engine wants them.

    Args:
        train: rows that batches are drawn from.
        held: rows that training is stopped by.
    """

    def __init__(self, train: Rows, held: Rows) -> None:
        self.train, self.held = train, held

    @property
    def name(self) -> str:
        return "table/rows"

    @property
    def categories(self) -> int:
        return int(self.train.x.max()) + 1

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, TableContext]:
        return self.train.take(torch.randint(len(self.train), (size,), generator=generator))

    def frequencies(self) -> Tensor:
        raise NotImplementedError("a table has frequencies by column")

    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        return self.held.x[:limit].long()  # in random order

    def evaluation_context(self, split: Split, limit: int | None = None) -> TableContext:
        return self.held.take(slice(0, limit))[1]

    def context(self, x: Tensor) -> Context:
        raise NotImplementedError("numbers do not follow from categories")

    def sample_context(self, size: int, device: torch.device | str = "cpu") -> Context:
        raise NotImplementedError("rows are drawn by the estimator")

    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class Outcome:
    """How a fit went.

    Attributes:
        model: with the best weights found.
        steps: made.
        validation_nats: per row, of the held-out rows; `None` where training was too short for a look.
        seconds: of training.
    """

    model: TableFlow
    steps: int
    validation_nats: float | None
    seconds: float


def fit_rows(
    code: TableCode,
    train: Rows,
    held: Rows,
    sizes: Sizes,
    seed: int,
    patience: int,
    max_seconds: float | None,
    progress: Progress,
) -> Outcome:
    """Train until the steps are made, the time is up, or held-out rows get no likelier.

    Where they got no likelier early on, all rows are learned anew, for as many steps as turned out to be good
    and with a schedule of learning rates that ends there.

    Args:
        code: how the rows are encoded.
        train: rows to learn.
        held: rows to stop by; `train` itself where there are too few to hold any out.
        sizes: of the model and the training.
        seed: start of all randomness.
        patience: most looks at the held-out rows without improvement before training stops; see `exhausted`.
        max_seconds: stop after so many, with the schedule of learning rates fitted into them.
        progress: is told how far training is, about once a second.
    """
    start = time.monotonic()
    parts = len(code.sizes) + len(code.numeric)  # a number with gaps has two
    apart = held is not train

    def looked(made: int, planned: int, bits: float | None) -> None:
        of_columns = None if bits is None or not apart else bits * parts / len(code.columns)
        progress(made, planned, of_columns)

    model, step, selection = _train(code, train, held, sizes, seed, patience, max_seconds, looked)
    steps, best = step.index, selection.best_step or step.index
    nats = None if selection.bits is None or not apart else -selection.bits * math.log(2) * parts
    if exhausted(selection, patience) and best <= _EARLY * sizes.steps and apart:
        again = replace(sizes, steps=max(1, round(_LONGER * best)))

        def told(made: int, planned: int, bits: float | None) -> None:
            looked(steps + made, steps + planned, selection.bits)

        left = None if max_seconds is None else max(1e-3, max_seconds - (time.monotonic() - start))
        model, step, _ = _train(code, train.joined(held), None, again, seed, 0, left, told)
        steps += step.index
    return Outcome(model.eval(), steps, nats, time.monotonic() - start)


def exhausted(selection: Selection, patience: int) -> bool:
    """Whether held-out rows got no likelier for too long: for as many looks as it took to be best.

    At least 3 and at most `patience` looks, 0 for no end. Few rows are best known early and by heart soon
    after; where there is more to learn, likelihood rises by small steps for long.
    """
    if patience == 0 or selection.bits is None:
        return False
    taken = selection.best_step // selection.config.validate_every
    return selection.waited >= min(patience, max(_LEAST_PATIENCE, taken))


def _train(
    code: TableCode,
    train: Rows,
    held: Rows | None,
    sizes: Sizes,
    seed: int,
    patience: int,
    max_seconds: float | None,
    progress: Progress,
) -> tuple[TableFlow, TrainingStep, Selection]:
    """One training from the start; without rows held out the averaged weights at its end are the model's."""
    start = told = time.monotonic()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = build(code, sizes, code.frequencies(train))
    generator = torch.Generator().manual_seed(seed)
    task = RowsTask(train, train if held is None else held)
    config = TrainingConfig(
        steps=sizes.steps,
        batch=sizes.batch,
        optimizer="muon",
        matrix_learning_rate=0.02,
        learning_rate=1e-2,
        schedule="cosine",
        warmup=min(50, sizes.steps),
        clip=1.0,
        # Few rows are soon known by heart; this was chosen on validation rows of car and credit.
        weight_decay=min(2.0, 2000.0 / max(1, len(train))),
        average=0.99,
        reconstruction_half_life=200.0,
        validate_every=0 if held is None else max(1, min(50, sizes.steps // 2)),
        validation_examples=min(2048, 16 * sizes.batch),  # so that looks cost less than training
        validation_draws=2,
        patience=patience,
    )
    model.initialize(*task.batch(min(_INITIAL_ROWS, 16 * sizes.batch), generator), generator)
    step = TrainingStep(model, task, config, generator)
    selection = Selection(step, task, config)
    share = 0.0
    while step.index < sizes.steps and share < 1.0 and not exhausted(selection, patience):
        step(share)
        selection.look()
        now = time.monotonic()
        share = 0.0 if max_seconds is None else (now - start) / max_seconds
        if step.unread >= _READ_EVERY:
            step.read_losses()
        if now - told > 1.0:
            progress(step.index, sizes.steps, selection.bits)
            told = now
    step.flat.load(selection.weights.clone())
    progress(step.index, sizes.steps, selection.bits)
    return model, step, selection
