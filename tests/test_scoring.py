"""Given molecules: their likelihood, and paths between two of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

pytest.importorskip("rdkit", reason="needs RDKit")

from catnf import interpolate_molecules, score_molecules
from catnf.errors import InputError
from catnf.experiments import Experiment
from catnf.fitted import FittedModel, load, save_model
from catnf.flows.base import Logistic
from catnf.interpolation import _move
from catnf.models.graph_cnf import GraphCNF
from catnf.molecules import molecule_task, read_molecules
from catnf.tasks.molecules.archive import MoleculeArchive
from catnf.tasks.molecules.data import Tables
from catnf.tasks.molecules.vocabulary import MolecularGraph

LAYERS = ("node_layers", "edge_layers", "pair_layers", "node_blocks", "edge_blocks", "pair_blocks")
NETWORK = {"node_hidden": 16, "edge_hidden": 8, "heads": 2} | dict.fromkeys(LAYERS, 1)


class Outcome(NamedTuple):
    code: object
    out: str
    err: str


Catnf = Callable[..., Outcome]


def assert_refused(done: Outcome, *fragments: str) -> None:
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("catnf: ")
    assert sum(line.startswith("catnf: ") for line in done.err.splitlines()) == 1, done.err
    for fragment in fragments:
        assert fragment in done.err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a model that has learned nothing yet: it, too, has likelihoods and latents."""
    values = {
        "name": "molecules/untrained",
        "task": {"kind": "molecules", "source": "nowhere.npz", "nodes": 6, "bonds": 5},
        "model": {"kind": "molecule-graphcnf", **NETWORK},
        "training": {},
    }
    experiment = Experiment.from_mapping(values)
    weights = experiment.make_model(experiment.make_task(), seed=0).state_dict()
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save_model(path, weights, experiment, 0, {})
    return path


@pytest.fixture(scope="module")
def fitted(model: Path) -> FittedModel:
    return load(model)


USABLE = ["CCO", "CCC(=O)N", "C1CC1", "C/C=C\\C", "CC(=O)[O-]"]
UNUSABLE = {
    "C[Na]": "unknown atom; the model knows C N O F",
    "": "empty",
    "*CC": "wildcard atom",
    "CC.O": "several molecules",
    "C1CC": "unparsable",
    "C[N+](C)(C)C": "needs a charge",
    "C" * 40: "too large, 40 atoms and 39 bonds; the model knows up to 6 and 5",
    "C" * 300: "too large",
    "CC(C)(C)(C)C": "impossible valence",
}


def test_score_names_lines_that_cannot_be_used(run_catnf: Catnf, model: Path, tmp_path: Path) -> None:
    lines = [*USABLE, *UNUSABLE]
    (tmp_path / "some.smi").write_text("\n".join(lines) + "\n")
    done = run_catnf("score", "some.smi", "--model", model, "-o", "out.csv", "--samples=2")
    assert (done.code, done.out) == (0, ""), done.err
    header, *rows = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "line,smiles,log_likelihood,bits_per_node"
    found = [row.split(",") for row in rows]
    assert {text for _, text, _, _ in found} == set(USABLE)
    bits = [float(row[3]) for row in found]
    assert bits == sorted(bits, reverse=True), "unusual ones first"
    assert all(lines[int(number) - 1] == text for number, text, _, _ in found)
    for number, reason in enumerate(UNUSABLE.values(), len(USABLE) + 1):
        assert f"line {number} is not used" in done.err
        assert reason in done.err
    assert f"5 molecules scored, {len(UNUSABLE)} lines not used" in done.err
    assert len((tmp_path / "out.refused.csv").read_text().splitlines()) == 1 + len(UNUSABLE)
    told = json.loads(run_catnf("score", "some.smi", "--model", model, "--json", "--samples=2").out)
    assert [row["smiles"] for row in told["molecules"]] == [text for _, text, _, _ in found]
    assert [row["line"] for row in told["refused"]] == [6, 7, 8, 9, 10, 11, 12, 13, 14]


def test_score_from_python(fitted: FittedModel) -> None:
    with pytest.raises(InputError, match=r"smiles is 'CCO'; give a list, for instance \['CCO'\]"):
        score_molecules("CCO", fitted)
    scored = score_molecules(["CCO", "C1CC", "O=C=C=C=O"], fitted, samples=20)
    assert [molecule.problem for molecule in scored] == ["", "unparsable", ""]
    assert math.isnan(scored[1].log_likelihood)
    assert scored[0].bits_per_node == pytest.approx(-scored[0].log_likelihood / 3 / math.log(2))
    assert score_molecules(["CCO"], fitted)[0] == score_molecules(["CCO"], fitted)[0]


def test_ends_of_a_path_come_back_as_from_any_trip_through_the_latents(fitted: FittedModel) -> None:
    ends = ["C1CC1", "CCCOCN"]
    graphs = [
        found for found in read_molecules(ends, molecule_task(fitted)) if isinstance(found, MolecularGraph)
    ]
    x, ctx = Tables.of(MoleculeArchive.pack(graphs), 6, 6).take(slice(None), 6)
    assert isinstance(fitted.model, GraphCNF)
    for seed in range(3):
        back = fitted.model.reconstruct(x, ctx, torch.Generator().manual_seed(seed))
        expected = [graph.bonds.tolist() for graph in molecule_task(fitted).graphs(back, ctx)]
        path = interpolate_molecules(*ends, fitted, 4, seed)
        assert [len(step.graph.atoms) for step in path] == [3, 4, 5, 6], "sizes change evenly"
        assert [path[0].graph.bonds.tolist(), path[-1].graph.bonds.tolist()] == expected
        assert path[0].reached == (path[0].smiles == ends[0])
        assert [step.smiles for step in interpolate_molecules(*ends, fitted, 4, seed)] == [
            step.smiles for step in path
        ]


def test_interpolate_command(run_catnf: Catnf, model: Path, tmp_path: Path) -> None:
    done = run_catnf("interpolate", "CCN", "CCO", "--model", model, "--steps=3", "-o", "path.png")
    assert done.code == 0, done.err
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["0.000", "0.500", "1.000"]
    assert "of 3 are valid" in done.err
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run_catnf("interpolate", "CCN", "C", "--model", model, "--steps=2", "--json").out)
    assert [step["share"] for step in told["path"]] == [0.0, 1.0]


def test_paths_stay_where_samples_are(seeded: Callable[[int], torch.Generator]) -> None:
    z = Logistic().sample((2, 400, 6), seeded(0))
    shared = torch.ones(1, 400, dtype=torch.bool)
    shared[0, 300:] = False
    path = _move(z, torch.linspace(0, 1, 5, dtype=torch.float64), shared, 1)
    assert path.std((1, 2)).tolist() == pytest.approx([1.0] * 5, abs=0.05)
    assert torch.equal(path[0, :300], z[0, :300])
    assert torch.equal(path[-1], z[1])
    assert torch.equal(path[2, 300:], z[1, 300:])


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["score", "bad.csv"], ["has no column smiles but id, text", "--column"]),
        (["score", "bad.csv", "--column=other"], ["no column 'other'"]),
        (["score", "empty.smi"], ["empty.smi has no molecules"]),
        (["score", "salts.smi"], ["no molecule that can be scored", "line 1: several molecules"]),
        (["score", "missing.smi"], ["missing.smi cannot be read"]),
        (["score", "some.smi", "--samples=0"], ["samples is 0"]),
        (["score", "some.smi", "-o", "some.smi"], ["The output is some.smi, which is read"]),
        (["interpolate", "C*", "CC"], ["'C*' cannot be used: wildcard atom"]),
        (["interpolate", "CC", "C" * 40], ["too large, 40 atoms"]),
        (["interpolate", "CC", "CCC", "--steps=1"], ["steps is 1"]),
        (["interpolate", "CC", "CCC", "-o", "path.jpg"], ["path.jpg; give a name that ends in .png"]),
        (["score", "some.smi", "--model=mine"], ["no bundled model or file 'mine'"]),
        (["score", "some.smi", "--model=sets/shuffling/mixture"], ["knows no molecules"]),
    ],
    ids=lambda value: " ".join(value)[:50],
)
def test_bad_input(
    run_catnf: Catnf, model: Path, tmp_path: Path, arguments: list[str], fragments: list[str]
) -> None:
    (tmp_path / "bad.csv").write_text("id,text\n1,CCO\n")
    (tmp_path / "empty.smi").write_text("\n")
    (tmp_path / "salts.smi").write_text("CC.O\nCC.Cl\n")
    (tmp_path / "some.smi").write_text("CCO\n")
    chosen = [] if any("--model" in argument for argument in arguments) else ["--model", model]
    assert_refused(run_catnf(*arguments, *chosen), *fragments)
    assert len(list(tmp_path.iterdir())) == 4, "nothing is left behind"
