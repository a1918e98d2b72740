"""The Fréchet ChemNet distance."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")
pytest.importorskip("fcd_torch", reason="needs fcd_torch")

import torch

from catnf.errors import InputError, MissingDependencyError, StorageError
from catnf.tasks.files import find_data
from catnf.tasks.molecules.fcd import FEATURES, ChemNet, ChemNetStatistics, frechet_distance

SMILES = ["CCO", "OC1=CC=CC=C1", "C[C@H](N)C(=O)O", "[O-][N+](=O)c1ccc(Br)cc1", "FC(F)(F)c1ncc(Cl)s1"]


@pytest.fixture(scope="module")
def network() -> ChemNet:
    return ChemNet()


WIDTH = 24  # features of Gaussians, of which 512 would only take longer


def gaussian(mean: float, scale: float) -> ChemNetStatistics:
    return ChemNetStatistics(np.full(WIDTH, mean), scale**2 * np.eye(WIDTH))


def test_distance_of_known_gaussians() -> None:
    """Of isotropic ones: `features (Δ mean² + Δ scale²)`."""
    distance = frechet_distance(gaussian(0.5, 1.0), gaussian(0.25, 3.0))
    assert distance == pytest.approx(WIDTH * (0.25**2 + 2.0**2), rel=1e-12)
    assert frechet_distance(gaussian(0.5, 2.0), gaussian(0.5, 2.0)) == pytest.approx(0.0, abs=1e-9)


def test_distance_agrees_with_a_matrix_root() -> None:
    random = np.random.default_rng(0)
    linalg = pytest.importorskip("scipy.linalg", reason="needs scipy")
    some = [
        ChemNetStatistics.of(random.normal(size=(90, WIDTH)) @ np.diag(random.uniform(0.1, 1, WIDTH)))
        for _ in range(2)
    ]
    root = linalg.sqrtm(some[0].covariance @ some[1].covariance).real
    shift = some[0].mean - some[1].mean
    expected = shift @ shift + np.trace(some[0].covariance + some[1].covariance - 2 * root)
    assert frechet_distance(some[0], some[1]) == pytest.approx(expected, rel=1e-6)
    assert frechet_distance(some[1], some[0]) == pytest.approx(expected, rel=1e-6)


def test_few_molecules_have_singular_covariances_but_a_distance() -> None:
    features = np.random.default_rng(0).normal(size=(5, WIDTH))
    few = ChemNetStatistics.of(features)
    assert few.n == 5
    assert frechet_distance(few, few) == pytest.approx(0.0, abs=1e-4)
    moved = ChemNetStatistics.of(features + 0.1)
    assert frechet_distance(few, moved) == pytest.approx(WIDTH * 0.01, rel=1e-4)
    with pytest.raises(InputError, match="not finite"):
        frechet_distance(few, gaussian(np.nan, 1.0))
    with pytest.raises(InputError, match="at least 2"):
        ChemNetStatistics.of(features[:1])


def test_features_are_those_of_fcd_torch(network: ChemNet) -> None:
    """Its own data set of SMILES, which it makes canonical, through its own network."""
    from fcd_torch import FCD
    from fcd_torch.utils import SmilesDataset

    rows = SmilesDataset(SMILES)
    x = torch.from_numpy(np.stack([rows[index] for index in range(len(SMILES))])).float()
    with torch.no_grad():
        expected = FCD().model(x.transpose(1, 2)).numpy()
    features = network.features(SMILES, batch=2)
    assert features.shape == (len(SMILES), FEATURES)
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(network.features(["Oc1ccccc1"]), network.features(["C1=CC=CC=C1O"]))


def test_progress_and_unreadable_smiles(network: ChemNet) -> None:
    done: list[int] = []
    network.features(SMILES, batch=2, progress=done.append)
    assert done == [2, 4, 5]
    assert network.features([]).shape == (0, FEATURES)
    with pytest.raises(InputError, match="'C1CC', cannot be read"):
        network.features(["C1CC"])


def test_distance_of_molecules_from_kept_statistics(network: ChemNet, tmp_path: Path) -> None:
    np.savez(tmp_path / "reference.npz", **network.statistics(SMILES[:3]).arrays())
    stored = ChemNetStatistics.load(tmp_path / "reference.npz")
    assert stored.n == 3
    np.testing.assert_array_equal(stored.covariance, stored.covariance.T)
    assert frechet_distance(network.statistics(SMILES[:3]), stored) == pytest.approx(0.0, abs=1e-3)
    assert frechet_distance(network.statistics(SMILES[2:]), stored) > 1.0


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nothing\.npz cannot be read"):
        ChemNetStatistics.load(tmp_path / "nothing.npz")
    np.savez(tmp_path / "other.npz", mu=np.zeros(7), sigma_tril=np.zeros(28))
    with pytest.raises(StorageError, match="512 features"):
        ChemNetStatistics.load(tmp_path / "other.npz")
    with pytest.raises(StorageError, match="test_mu"):
        ChemNetStatistics.load(tmp_path / "other.npz", "test")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(StorageError, match="does not hold"):
        ChemNetStatistics.load(tmp_path / "text.npz")


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcd_torch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'catnf\[chem\]'"):
        ChemNet()


def test_published_statistics_of_moses(network: ChemNet) -> None:
    """Test molecules are as near to the published test set as chance lets them be, and not to the other."""
    statistics, smiles = find_data("moses/moses_fcd_stats.npz"), find_data("moses/moses_test.smi.xz")
    if statistics is None or smiles is None:
        pytest.skip("needs moses/ in CATNF_DATA")
    with lzma.open(smiles, "rt") as file:
        rows = file.read().split()[::440]
    test = ChemNetStatistics.load(statistics, "test")
    scaffolds = ChemNetStatistics.load(statistics, "test_scaffolds")
    features = network.features(rows)
    shifts = [np.square(features.mean(0) - known.mean).sum() for known in (test, scaffolds)]
    chance = np.trace(test.covariance) / len(rows)
    assert shifts[0] == pytest.approx(chance, rel=0.3)
    assert shifts[1] > 2 * chance
    assert frechet_distance(test, scaffolds) == pytest.approx(0.4688, abs=1e-3)
