"""The credit data: splits, codes, refusals, and how few bits independent columns need."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from catnf.errors import InputError, StorageError
from catnf.experiments import load_experiment
from catnf.tasks.files import find_data
from catnf.tasks.table import CreditRisk
from catnf.tasks.table.credit import COLUMNS, read_credit
from catnf.tasks.table.data import independent_bits
from catnf.tasks.table.sources import FILE

NAMES = ("mixture", "latent", "dequantization")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the right shape whose cells are drawn at random, where tests look for data."""
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    columns = [
        [labels[i] for i in torch.randint(len(labels), (1000,), generator=generator)]
        for labels in COLUMNS.values()
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", *COLUMNS])
        writer.writerows([["41", *row] for row in zip(*columns, strict=True)])
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    return path


def test_rows_are_split_in_order(made: Path) -> None:
    task, rows = CreditRisk(), read_credit(made)
    parts = [task.rows(split) for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [750, 100, 150]
    assert torch.equal(torch.cat(parts), rows)
    assert torch.equal(task.evaluation("test"), rows[850:])
    assert torch.equal(task.evaluation("test", 6), rows[850::25])
    header, first = task.sample_rows(rows[:1], task.context(rows[:1]))
    assert header == list(COLUMNS)
    assert all(cell in labels for cell, labels in zip(first[0], COLUMNS.values(), strict=True))


def test_redrawn_cells_keep_their_columns(made: Path) -> None:
    plain, mixed = CreditRisk(), CreditRisk(0.5)
    x, _ = mixed.batch(4000, torch.Generator().manual_seed(1))
    mixed.check(x)
    old, _ = plain.batch(500, torch.Generator().manual_seed(1))
    assert plain.sample_metrics(old) == {"copies": 1.0}
    assert plain.sample_metrics(x)["copies"] < 0.5
    for column, shares in enumerate(plain.column_frequencies()):
        found = torch.bincount(x[:, column], minlength=len(shares)) / len(x)
        assert torch.allclose(found, shares, atol=0.04)


def test_frequencies(made: Path) -> None:
    shares = CreditRisk().column_frequencies()
    assert torch.allclose(shares.sum(1), torch.ones(9))
    assert (shares > 0).sum(1).tolist() == [len(labels) for labels in COLUMNS.values()]
    assert 1.7 < independent_bits(CreditRisk(), "test") < 1.76  # as random as columns can be: 1.728


def test_bad_files_and_rows_are_refused(made: Path) -> None:
    task = CreditRisk()
    with pytest.raises(InputError, match="'housing' has category 3 in row 0; give one from 0 to 2"):
        task.check(torch.tensor([[0, 0, 0, 0, 3, 0, 0, 0, 0]]))
    with pytest.raises(InputError, match=r"task\.redrawn is 1"):
        CreditRisk(1.0)
    text = made.read_text()
    made.write_text(text.replace("for free", "for nothing"))
    with pytest.raises(StorageError, match="for nothing"):
        read_credit(made)
    made.write_text("".join(text.splitlines(keepends=True)[:900]))
    with pytest.raises(StorageError, match="899 rows, not 1000"):
        read_credit(made)


def test_without_data_a_sentence_says_where_to_put_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(StorageError, match=r"no data set tabular/credit-g\.csv in .*catnf data table credit"):
        CreditRisk().rows("test")
    assert load_experiment("table/credit/mixture").make_model(CreditRisk(), 0) is not None


@pytest.mark.parametrize("name", NAMES)
def test_experiments_train_evaluate_and_sample(
    made: Path, name: str, run_catnf: Callable[..., tuple[int, str, str]]
) -> None:
    small = ("--set", "training.steps=4", "--set", "training.validate_every=2")
    small += ("--set", "model.layers=2", "--set", "training.batch=8")
    assert (
        run_catnf("train", f"table/credit/{name}", "-o", "run", "--quiet", "--device", "cpu", *small)[0] == 0
    )
    code, out, _ = run_catnf(
        "evaluate", "run", "--samples", 2, "--generated", 20, "--split", "test", "--json"
    )
    assert code == 0
    assert '"bits_per_variable": 150' in out
    code, out, _ = run_catnf("sample", "run", "-n", 3)
    assert (code, len(out.splitlines())) == (0, 4)


@pytest.mark.skipif(find_data(FILE) is None, reason="the credit data are not in CATNF_DATA")
def test_the_real_data() -> None:
    task = CreditRisk()
    good = [int((task.rows(split)[:, -1] == 0).sum()) for split in ("train", "validation", "test")]
    assert good == [527, 66, 107]
    assert independent_bits(task, "test") == pytest.approx(1.346, abs=1e-3)
