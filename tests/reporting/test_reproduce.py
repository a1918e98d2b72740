"""catnf reproduce: the paper's figures, ours, and those measured here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catnf.reference import Results, load_paper

Run = Callable[..., Any]
MIXTURE = "sets/shuffling/mixture"
FEW = ("--examples", 2, "--samples", 1, "--generated", 4, "--device", "cpu")


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def lines_of(done: Any, experiment: str) -> dict[str, Any]:
    return {
        line["figure"]["metric"]: line
        for line in json.loads(done.out)["lines"]
        if line["experiment"] == experiment
    }


def test_stored_figures_are_those_of_results_and_paper(run_catnf: Run) -> None:
    done = run_catnf("reproduce", "all", "--stored", "--json")
    assert done.code == 0
    told = json.loads(done.out)["lines"]
    paper, results = load_paper(), Results.bundled()
    compared = 0
    for line in told:
        name, metric = line["experiment"], line["figure"]["metric"]
        assert line["here"] is None
        if name in results and metric in results[name]["metrics"]:
            assert line["ours"]["value"] == results[name]["metrics"][metric]
            compared += 1
        else:
            assert line["ours"] is None
        if name in paper.rows:
            assert line["paper"] == paper.rows[name].metrics.get(metric)
    assert compared > 60
    assert set(paper.rows) <= {line["experiment"] for line in told}


def test_what_nobody_measured_says_so_until_a_result_appears(run_catnf: Run, tmp_path: Path) -> None:
    shown = run_catnf("reproduce", "text", "--stored", "--only", "text/ptb/mixture").out
    (row,) = [line for line in shown.splitlines() if "bits per character" in line]
    stored = Results.bundled().get("text/ptb/mixture")
    if stored is None:
        assert "| 1.27 ± 0.01 | not measured |" in row
    result = {
        "metrics": {"bits_per_char": 1.2345},
        "intervals": {"bits_per_char": [1.2, 1.3]},
        "n": {"bits_per_char": 77},
        "seeds": [0],
        "runs": [{"training": {"seconds": 9.6, "hardware": "a machine"}}],
    }
    path = tmp_path / "results" / "text" / "ptb" / "mixture.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(result))
    own = ("--results", tmp_path / "results")
    shown = run_catnf("reproduce", "text", "--stored", "--only", "text/ptb/mixture", *own).out
    assert "| bits per character | 1.27 ± 0.01 | 1.234 ± 0.050 | 77 | 10 s, a machine |" in shown


def test_seeds_that_were_measured_on_different_numbers_tell_all(run_catnf: Run, tmp_path: Path) -> None:
    result: dict[str, Any] = {"metrics": {"bits_per_char": 1.2}, "n": {"bits_per_char": 128}}
    runs = [{**result, "seeds": [seed], "n": {"bits_per_char": n}} for seed, n in enumerate((512, 2048, 128))]
    path = tmp_path / "results" / "text" / "ptb" / "mixture.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**result, "seeds": [0, 1, 2], "runs": runs}))
    shown = ("reproduce", "text", "--stored", "--only", "text/ptb/mixture", "--results", tmp_path / "results")
    assert "| 128 to 2,048, 3 seeds |" in run_catnf(*shown).out
    ours = lines_of(run_catnf(*shown, "--json"), "text/ptb/mixture")["bits_per_char"]["ours"]
    assert (ours["n"], ours["n_most"]) == (128, 2048)
    summary = json.loads(Results.of_folder(tmp_path / "results").summary())["text/ptb/mixture"]
    assert [run["n"]["bits_per_char"] for run in summary["runs"]] == [512, 2048, 128]


def test_a_bundled_model_is_measured_and_pages_are_written(run_catnf: Run, tmp_path: Path) -> None:
    done = run_catnf("reproduce", "sets", "--only", MIXTURE, *FEW, "-o", "out")
    assert done.code == 0
    assert "| here | n here | time here |" in done.out
    assert "1 draws of the bound" in done.out
    page, text = ((tmp_path / "out" / f"sets.{kind}").read_text() for kind in ("html", "md"))
    bits = f"{Results.bundled()[MIXTURE]['metrics']['bits_per_variable']:.4f}"
    for content in (done.out, page, text):
        assert bits in content
        assert "No model can need fewer than 2.7656 bits" in content


def test_a_bundled_model_of_another_training_is_told(run_catnf: Run, tmp_path: Path) -> None:
    arguments = ("reproduce", "sets", "--only", MIXTURE, *FEW)
    told = f"The bundled {MIXTURE} is of another training than our figure."
    assert told not in run_catnf(*arguments).out
    result = json.loads(json.dumps(Results.bundled()[MIXTURE]))
    for run in result["runs"]:
        run["training"]["steps"] += 1
    path = tmp_path / "results" / f"{MIXTURE}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(result))
    assert told in run_catnf(*arguments, "--results", tmp_path / "results").out


def test_coloring_makes_the_graphs_it_needs(run_catnf: Run) -> None:
    pytest.importorskip("ortools", reason="needs the extra coloring")
    done = run_catnf("reproduce", "coloring", "--only", "graphcnf-rounds-slim", *FEW, "--json")
    here = {
        metric: line["here"] for metric, line in lines_of(done, "coloring/large/graphcnf-rounds-slim").items()
    }
    assert here["validity"]["n"] == 4
    assert 0.1 < here["bits_per_node"]["value"] < 1.5


def test_missing_data_leave_the_likelihood_out_and_say_why(run_catnf: Run) -> None:
    pytest.importorskip("rdkit", reason="needs the extra chem")
    name = "molecules/zinc250k/growth-small"
    done = run_catnf("reproduce", "molecules", "--only", name, *FEW, "--json")
    found = lines_of(done, name)
    assert found["validity"]["here"]["n"] == 4
    assert found["bits_per_node"]["here"] is None
    assert "catnf data molecules zinc250k" in json.loads(done.out)["why"][name]


def test_training_from_scratch_with_several_seeds(run_catnf: Run, tmp_path: Path) -> None:
    small = ["task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2"]
    small += ["training.batch=16", "training.initialization_batches=2", "training.steps=5"]
    changes = [part for one in small for part in ("--set", one)]
    arguments = ("reproduce", "sets", "--train", "--only", MIXTURE, "--seeds", 2, *changes, *FEW)
    here = lines_of(run_catnf(*arguments, "--json"), MIXTURE)["bits_per_variable"]["here"]
    assert here["seeds"] == 2
    stored = json.loads((tmp_path / "runs/reproduce/results" / f"{MIXTURE}.json").read_text())
    assert here["value"] == stored["metrics"]["bits_per_variable"]
    assert "2, 2 seeds" in (again := run_catnf(*arguments)).out
    assert "with task.size=4" in again.out, "changed configurations are named"


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["graphs"], "graphs"),
        (["sets", "--budget", 3], "--budget is for trainings; give --train too"),
        (["sets", "--train", "--budget", 0], "budget is 0.0"),
        (["sets", "--train", "--seeds", 0], "seeds is 0"),
        (["sets", "--train", "--stored"], "leave one of them out"),
        (["sets", "--only", "mixtur"], "mixtur is no model of sets"),
        (["sets", "--examples", 0], "examples is 0"),
        (["sets", "--results", "nowhere"], "There is no folder nowhere"),
        (["credit", "--train", "--only", "mixture", "--budget", 1], "credit-g.csv"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_refusals(run_catnf: Run, arguments: list[object], fragment: str) -> None:
    done = run_catnf("reproduce", *arguments)
    assert done.code == 2
    assert fragment in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
