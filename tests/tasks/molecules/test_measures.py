"""All that is measured about sampled molecules: figures, their protocols, and what is left out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")
pytest.importorskip("fcd_torch", reason="needs fcd_torch")

from catnf.tasks.molecules import Molecules, MoleculeTaskConfig
from catnf.tasks.molecules import references as module
from catnf.tasks.molecules.chemistry import canonical_smiles
from catnf.tasks.molecules.distributions import COUNTED, MEASURED, Profile, profile_distances
from catnf.tasks.molecules.fcd import ChemNet, ChemNetStatistics, frechet_distance
from catnf.tasks.molecules.files import Rows
from catnf.tasks.molecules.measures import measure_graphs
from catnf.tasks.molecules.metrics import PROTOCOLS
from catnf.tasks.molecules.references import Reference, held_out
from catnf.tasks.molecules.similarity import Structures, moses_diversities, moses_similarities
from catnf.tasks.molecules.sources import Source
from catnf.tasks.molecules.vocabulary import MolecularGraph
from catnf.tasks.task import Measured, Measuring

Pack = Callable[[Path, Mapping[str, Sequence[str]]], Path]

TRAIN = ["CCO", "CC(=O)Nc1ccccc1", "Cc1ccc(-c2ccccn2)cc1", "O=C(c1ccccc1)N1CCOCC1"]
VALIDATION = ["CCOC(=O)c1ccncc1", "CC(C)Cc1ccc(C(C)C(=O)O)cc1", "C1CCC2CCCCC2C1", "CC=O"]
TEST = ["c1ccc2[nH]ccc2c1", "C[C@H](N)C(=O)O", "CC(=O)OC1CCCC1", "C[N+](=O)[O-]", "O=c1cc[nH]c2ccccc12"]
SCAFFOLDS = ["c1ccc(Oc2ccccc2)cc1", "C1CC1N1CCCC1", "CCN"]
LEFT = ["c1ccc2[nH]ccc2c1", "CC(N)C(=O)O", "CC(=O)OC1CCCC1", "O=c1cc[nH]c2ccccc12"]  # of TEST, when encoded
SPLITS = {"train": TRAIN, "validation": VALIDATION, "test": TEST, "test_scaffolds": SCAFFOLDS}

SIMILARITIES = {"snn", "scaffolds", "fragments"}
DISTANCES = {f"distance_{name}" for name in (*COUNTED, *MEASURED)}
ALWAYS = {"filters", "diversity", "diversity_2"} | SIMILARITIES | DISTANCES | set(PROTOCOLS)
SHARES = {"filters", *PROTOCOLS}


def fcd(samples: Sequence[str], reference: Sequence[str] | ChemNetStatistics) -> float:
    network = ChemNet("cpu")
    known = reference if isinstance(reference, ChemNetStatistics) else network.statistics(reference)
    return frechet_distance(network.statistics(samples), known)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no other."""
    monkeypatch.setenv("CATNF_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data" / "molecules"


@pytest.fixture
def make(folder: Path, pack_molecules: Pack) -> Callable[[str], Molecules]:
    """The task of a known name, or of a file, with the molecules above."""

    def make_task(source: str) -> Molecules:
        path = pack_molecules(folder / f"{source}-neutral.npz", SPLITS)
        own = source if source in ("zinc250k", "moses") else str(path)
        return MoleculeTaskConfig(source=own, nodes=15, bonds=15).make()

    return make_task


def measure(task: Molecules, split: str, how: Measuring) -> Measured:
    return measure_graphs(task, list(task.archive(split)), how)


def test_held_out_molecules_are_at_no_distance_from_themselves(make: Callable[[str], Molecules]) -> None:
    task = make("mine")
    graphs = [graph for graph in task.archive("test") if len(graph.atoms) != 4]  # without the nitro group
    values, notes = measure_graphs(task, graphs, Measuring("test"))
    assert notes == []
    assert set(values) == ALWAYS | {"fcd_encoded"}
    assert values["fcd_encoded"].value == pytest.approx(0.0, abs=1e-3)
    assert {name: values[name].value for name in SIMILARITIES} == pytest.approx(
        dict.fromkeys(SIMILARITIES, 1.0), rel=1e-5
    )
    assert {name: values[name].value for name in DISTANCES} == pytest.approx(
        dict.fromkeys(DISTANCES, 0.0), abs=1e-9
    )


def test_figures_are_those_of_the_functions(make: Callable[[str], Molecules]) -> None:
    values = measure(make("mine"), "validation", Measuring("test")).values
    samples, reference = [[canonical_smiles(text) or "" for text in some] for some in (VALIDATION, LEFT)]
    mine, theirs = Structures.of(samples), Structures.of(reference)
    expected = moses_similarities(mine, theirs) | moses_diversities(mine)
    distances = profile_distances(Profile.of(samples), Profile.of(reference))
    expected |= {f"distance_{name}": value for name, value in distances.items()}
    expected |= {"fcd_encoded": fcd(samples, reference), "filters": 0.75}  # an aldehyde does not pass
    assert {name: values[name].value for name in expected} == pytest.approx(expected, rel=1e-4)


def test_every_figure_has_a_protocol_and_only_shares_count(make: Callable[[str], Molecules]) -> None:
    task = make("mine")
    samples = list(task.archive("test"))
    samples.append(MolecularGraph(np.zeros(5, np.uint8), np.array([(0, 1, 1), (1, 2, 1)], np.uint8)))
    values = measure_graphs(task, samples, Measuring("test")).values
    assert all(found.protocol for found in values.values())
    assert {name for name, found in values.items() if found.share} == SHARES
    n = {name: values[name].n for name in ("validity", "novelty", "filters", "snn", "distance_qed")}
    assert n == {"validity": 6, "novelty": 4, "filters": 4, "snn": 4, "distance_qed": 4}
    assert values["fcd_encoded"].n == 5, "the largest part of the last one is valid"
    assert "the valid ones of test, as the encoding leaves them, 4 molecules" in values["snn"].protocol


def test_moses_has_two_test_sets(make: Callable[[str], Molecules]) -> None:
    task = make("moses")
    values = measure(task, "test_scaffolds", Measuring("test")).values
    assert set(values) == ALWAYS | {"fcd", "fcd_testsf"} | {f"{name}_testsf" for name in SIMILARITIES}
    assert values["snn_testsf"].value == pytest.approx(1.0)
    assert values["snn"].value < 0.5
    assert values["fcd_testsf"].value == pytest.approx(0.0, abs=1e-3)
    assert values["fcd"].value > 1.0
    assert "MOSES" in values["fcd"].protocol
    values = measure(task, "validation", Measuring("validation")).values
    assert set(values) == ALWAYS | {"fcd"}
    assert values["fcd"].value == pytest.approx(0.0, abs=1e-3)


def test_published_statistics_of_moses_are_taken_where_they_are(
    make: Callable[[str], Molecules], folder: Path
) -> None:
    task = make("moses")
    rows = np.random.default_rng(0).normal(size=(2, 4, 512))
    names = ("test", "test_scaffolds")
    known = {name: ChemNetStatistics.of(some) for name, some in zip(names, rows, strict=True)}
    arrays = {f"{n}_{part}": array for n, some in known.items() for part, array in some.arrays().items()}
    (folder.parent / "moses").mkdir()
    np.savez(folder.parent / "moses" / "moses_fcd_stats.npz", allow_pickle=False, **arrays)
    values = measure(task, "train", Measuring("test")).values
    expected = [fcd(TRAIN, known[name]) for name in names]
    assert [values[name].value for name in ("fcd", "fcd_testsf")] == pytest.approx(expected, rel=1e-4)
    assert "published statistics" in values["fcd"].protocol


def test_zinc250k_is_compared_with_all_held_out_molecules_as_written(
    make: Callable[[str], Molecules], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {name: Rows("some.smi", np.arange(len(some)), some) for name, some in SPLITS.items()}
    monkeypatch.setattr(module, "zinc250k", lambda progress: Source("zinc250k", "", rows))
    task = make("zinc250k")
    assert held_out(task, Measuring("test")).splits == ("validation", "test")
    assert held_out(task, Measuring("validation")).splits == ("validation",)
    values = measure(task, "test", Measuring("test")).values
    assert set(values) == ALWAYS | {"fcd", "fcd_encoded"}
    corrected = [*LEFT, "C[N+](=O)O"]
    assert values["fcd"].value == pytest.approx(fcd(corrected, VALIDATION + TEST), rel=1e-4)
    assert values["fcd_encoded"].value == pytest.approx(fcd(LEFT, VALIDATION + LEFT), rel=1e-4)
    assert (values["fcd"].n, values["fcd_encoded"].n) == (5, 4)
    assert "GDSS" in values["fcd"].protocol
    assert "original SMILES of validation and test, 9 molecules" in values["fcd"].protocol


def test_without_the_original_smiles_the_rest_is_measured(
    make: Callable[[str], Molecules], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    values, notes = measure(make("zinc250k"), "test", Measuring("test"))
    assert set(values) == ALWAYS | {"fcd_encoded"}
    (note,) = notes
    assert note.startswith("fcd is left out: ")
    assert "250k_rndm_zinc_drugs_clean_3.csv" in note


def test_without_fcd_torch_the_rest_is_measured(
    make: Callable[[str], Molecules], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcd_torch", None)
    values, notes = measure(make("mine"), "test", Measuring("test"))
    assert set(values) == ALWAYS
    (note,) = notes
    assert "needs fcd_torch; install it with pip install 'catnf[chem]'" in note


def test_samples_that_are_not_valid(make: Callable[[str], Molecules]) -> None:
    five = MolecularGraph(np.zeros(6, np.uint8), np.array([(0, end, 1) for end in range(1, 6)], np.uint8))
    values, notes = measure_graphs(make("mine"), [five], Measuring("test"))
    assert {name: found.value for name, found in values.items()} == dict.fromkeys(
        ["validity", "validity_largest", "validity_gdss"], 0.0
    )
    assert [note.split(",")[0] for note in notes] == [
        "No sample is strictly valid",
        "fcd_encoded is left out: it needs two molecules at least",
    ]


def test_without_held_out_molecules(folder: Path, pack_molecules: Pack) -> None:
    path = pack_molecules(folder / "some.npz", {"train": TRAIN, "validation": TEST[3:4], "test": []})
    task = MoleculeTaskConfig(source=str(path), nodes=15, bonds=15).make()
    for split, why in (("test", "is empty"), ("validation", "fewer than two valid molecules")):
        values, notes = measure(task, "train", Measuring(split))  # type: ignore[arg-type]
        assert set(values) == SHARES
        assert len(notes) == 1
        assert why in notes[0]


def test_references_are_made_once(make: Callable[[str], Molecules], monkeypatch: pytest.MonkeyPatch) -> None:
    task, told = make("mine"), []
    how = Measuring("test", progress=lambda stage, done, total: told.append((stage, done, total)))
    first = measure(task, "validation", how)
    once = {stage for stage, _, _ in told if "once" in stage}
    assert len(once) == 5
    assert all(done <= total for _, done, total in told)
    monkeypatch.setattr(Reference, "smiles", property(refuse))
    told.clear()
    again = measure(task, "validation", how)
    assert not [stage for stage, _, _ in told if "once" in stage]
    assert {name: found.value for name, found in again.values.items()} == pytest.approx(
        {name: found.value for name, found in first.values.items()}
    )
    with pytest.raises(AssertionError):  # other molecules
        measure(task, "validation", Measuring("validation"))


def refuse(*arguments: object) -> None:
    raise AssertionError("the molecules are read again")
