"""Tables on the command line: fit, sample, score, report, and one sentence for what cannot be done."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402
from catnf.tabular.frames import read_table  # noqa: E402
from catnf.tabular.report import make_report  # noqa: E402

Run = Callable[..., Any]


def made(rows: int = 120) -> Any:
    random = np.random.default_rng(3)
    kind = random.choice(["cat", "dog"], rows)
    return pd.DataFrame(
        {
            "kind": kind,
            "sound": np.where(random.random(rows) < 0.9, np.where(kind == "cat", "meow", "woof"), "none"),
            "weight": np.where(kind == "cat", 4.0, 20.0) + random.standard_normal(rows),
        }
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fitted") / "model"
    CategoricalFlow(random_state=0, max_steps=60).fit(made()).save(path)
    return path


def test_fit_sample_score(run_catnf: Run, tmp_path: Path) -> None:
    made().to_csv(tmp_path / "data.csv", index=False)
    fitted = run_catnf("fit", "data.csv", "-o", "model", "--steps", 5, "--quiet", "--json")
    assert fitted.code == 0
    assert json.loads(fitted.out)["columns"]["weight"] == "continuous"
    assert run_catnf("sample", "model", "-n", 9, "-o", "synthetic.parquet").code == 0
    assert pd.read_parquet(tmp_path / "synthetic.parquet").shape == (9, 3)
    scored = run_catnf("score", "model", "data.csv", "-o", "scores.csv", "--json")
    assert json.loads(scored.out)["scored"] == 120
    table = pd.read_csv(tmp_path / "scores.csv")
    assert table["log_likelihood"].is_monotonic_increasing
    assert list(table.columns[:2]) == ["row", "log_likelihood"]


def test_whole_numbers_stay_whole_beside_gaps(run_catnf: Run, tmp_path: Path) -> None:
    rows = [f"{'' if i % 7 == 0 else 20 + i % 40},{'AB'[i % 2]}" for i in range(120)]
    (tmp_path / "data.csv").write_text("age,city\n" + "\n".join(rows) + "\n")
    told = json.loads(run_catnf("fit", "data.csv", "-o", "model", "--steps", 3, "--json").out)
    assert told["held_out_log_likelihood"] < 0
    drawn = run_catnf("sample", "model", "-n", 200).out.splitlines()[1:]
    ages = {line.split(",")[0] for line in drawn}
    assert "" in ages
    assert all(age.isdigit() for age in ages - {""})
    scored = run_catnf("score", "model", "data.csv").out
    assert ".0,A" not in scored


def test_too_few_rows_to_hold_any_out(run_catnf: Run, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n" + "x,y\nz,w\n" * 8)
    assert "nothing was measured on held-out" in run_catnf("fit", "data.csv", "-o", "model", "--steps", 3).err
    told = json.loads(run_catnf("fit", "data.csv", "-o", "model", "--steps", 3, "--json").out)
    assert told["held_out_log_likelihood"] is None


def test_scores_leave_columns_alone(run_catnf: Run, tmp_path: Path) -> None:
    frame = made(30).assign(row="mine", log_likelihood_before=1.5)
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run_catnf("fit", "data.csv", "-o", "model", "--steps", 3, "--quiet").code == 0
    assert run_catnf("score", "model", "data.csv", "-o", "scores.csv").code == 0
    table = pd.read_csv(tmp_path / "scores.csv")
    assert list(table.columns[:2]) == ["catnf_row", "log_likelihood"]
    assert list(table.columns[4:]) == list(frame.columns)
    assert set(table["row"]) == {"mine"}
    assert sorted(table["catnf_row"]) == list(range(30))


def test_given_on_the_command_line(run_catnf: Run, model: Path, tmp_path: Path) -> None:
    done = run_catnf("sample", model, "-n", 20, "--given", "kind=cat", "--given", "weight=0..10", "--seed", 1)
    rows = [line.split(",") for line in done.out.splitlines()[1:]]
    assert {row[0] for row in rows} == {"cat"}
    assert all(0 <= float(row[2]) <= 10 for row in rows)
    again = run_catnf("sample", model, "-n", 3, "--seed", 5, "--json").out
    assert again == run_catnf("sample", model, "-n", 3, "--seed", 5, "--json").out


def test_report(run_catnf: Run, model: Path, tmp_path: Path) -> None:
    made().to_csv(tmp_path / "data.csv", index=False)
    done = run_catnf("report", model, "data.csv", "-o", "report.html", "--target", "sound", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert 0.5 < told["column_shapes"] <= 1
    assert 0.5 < told["pair_trends"] <= 1
    assert 0 <= told["detection_auc"] <= 1
    assert set(told["f1"]) == {"real", "synthetic"}
    assert told["nearest_record"]["real_to_real"] > 0
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png") == 4, "three columns, and their pairs"
    assert 'name="viewport"' in page
    assert "trained on synthetic" in page


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"a,b\n", "0 rows"),
        (b"a,b,a\n1,2,3\n", "column 'a' twice"),
        (b"a;b\n1;2\n3;4\n", "several with ';' between them; save it with ','"),
        ("a,b\né,ü\n".encode("latin-1"), "not UTF-8"),
        (b"a,b\n1,2\n1,2,3,4\n", "cannot be read as a table"),
        (b"a,b\n1,x,5\n2,y,6\n", "more cells than its header"),
    ],
)
def test_files_that_cannot_be_fitted(run_catnf: Run, tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "data.csv").write_bytes(content)
    done = run_catnf("fit", "data.csv", "-o", "model", "--steps", 1, "--quiet")
    assert done.code == 2
    assert told in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_cut_off_files_and_odd_ends_of_lines(run_catnf: Run, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random((20_000, 2))
    whole = gzip.compress(pd.DataFrame(numbers, columns=["a", "b"]).to_csv(index=False).encode())
    (tmp_path / "data.csv.gz").write_bytes(whole[: len(whole) // 2])
    done = run_catnf("fit", "data.csv.gz", "-o", "model", "--steps", 1, "--quiet")
    assert done.code == 2
    assert "cut off or damaged" in done.err
    (tmp_path / "data.csv").write_bytes(b"a,b\n1,x,\n2,y,\n")
    read = read_table(tmp_path / "data.csv")
    assert read["a"].tolist() == [1, 2]
    assert read["b"].tolist() == ["x", "y"]


def test_reports_compare_equal_numbers_of_any_dtype(tmp_path: Path) -> None:
    """A gap makes numbers with a point of whole ones."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"kids": random.integers(0, 4, 300), "kind": random.choice(["a", "b"], 300)})
    gappy = table.astype({"kids": float}).mask(random.random((300, 2)) < 0.02)
    flow = CategoricalFlow(random_state=0, max_steps=60).fit(gappy)
    report, _, _ = make_report(flow, table, target="kids")
    assert report.shapes["kids"] > 0.8
    assert report.pairs["kids", "kind"] > 0.7
    assert report.detection < 0.8


def test_refusals(run_catnf: Run, model: Path, tmp_path: Path) -> None:
    made().to_csv(tmp_path / "data.csv", index=False)
    made().drop(columns="kind").to_csv(tmp_path / "other.csv", index=False)
    (tmp_path / "folder.safetensors").mkdir()
    for arguments, told in (
        (("fit", "nothing.csv", "-o", "model"), "cannot be read"),
        (("fit", "data.xlsx", "-o", "model"), "unknown kind"),
        (("score", model, "other.csv"), "lacks the column 'kind'"),
        (("score", model, "data.csv", "--model", model), "given twice"),
        (("score", model, "data.csv", "--column", "kind"), "--column is for molecules"),
        (("sample", model, "-n", 0), "-n is 0"),
        (("sample", model, "--largest"), "--largest is not for tables"),
        (("sample", model, "--length", 3), "--length is not for tables"),
        (("sample", model, "--prompt", "a"), "--prompt is not for tables"),
        (("score", "data.csv"), "put the model that `catnf fit` made before data.csv"),
        (("fit", "data.csv", "-o", "folder.safetensors"), "folder.safetensors: it is a folder"),
        (("sample", model, "--given", "kind"), "write it as column=value"),
        (("sample", model, "--given", "kind=cow"), "never held 'cow'"),
        (("sample", model, "-o", "out.txt"), "ends in .csv"),
        (("sample", "sets/shuffling/mixture", "--given", "kind=cat"), "--given is for"),
        (("report", model, "data.csv", "-o", "report.txt"), "ends in .html"),
        (("report", model, "data.csv", "--target", "weight"), "no categorical column"),
        (("evaluate", model), "model of a table"),
        (("report", "sets/shuffling/mixture", "data.csv"), "There is no file"),
    ):
        done = run_catnf(*arguments)
        assert done.code == 2, arguments
        assert told in done.err, (arguments, done.err)
