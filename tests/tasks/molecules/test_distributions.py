"""Distributions of samples beside the data's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from catnf.errors import InputError
from catnf.tasks.molecules.distributions import (
    COUNTED,
    MEASURED,
    Profile,
    draw_distributions,
    profile_distances,
    total_variation,
    wasserstein,
)

SMILES = ["Oc1ccccc1", "CC#N", "C[N+](C)(C)C", "C1CC1C1CC1"]


def test_known_molecules() -> None:
    profile = Profile.of(SMILES)
    assert profile.n == 4
    assert profile.counts == {
        "size": {"7": 1, "3": 1, "5": 1, "6": 1},
        "atoms": {"C": 18, "O": 1, "N": 1, "N+": 1},
        "bonds": {"single": 16, "double": 3, "triple": 1},
        "rings": {"0": 2, "1": 1, "2": 1},
        "ring_sizes": {"6": 1, "3": 2},
    }
    assert profile.values["logp"][0] == pytest.approx(1.3922)  # phenol, by Crippen's method
    assert profile.values["qed"].shape == (4,)
    assert ((profile.values["qed"] > 0) & (profile.values["qed"] < 1)).all()


def test_distances() -> None:
    one, two = Profile.of(SMILES), Profile.of([*SMILES, *SMILES])
    equal = profile_distances(one, two)
    assert list(equal) == [*COUNTED, *MEASURED]
    assert equal == pytest.approx(dict.fromkeys(equal, 0.0), abs=1e-12)
    other = profile_distances(Profile.of(["CCO"]), Profile.of(["c1ccccc1"]))
    assert other["size"] == other["rings"] == other["ring_sizes"] == 1.0
    assert other["atoms"] == pytest.approx(1 / 3)
    assert other["bonds"] == pytest.approx(1 / 2)
    assert other["logp"] == pytest.approx(1.6866 + 0.0014)


def test_total_variation_and_wasserstein_of_known_values() -> None:
    assert total_variation({"a": 2}, {"a": 5}) == 0.0
    assert total_variation({"a": 2}, {}) == 1.0
    assert total_variation({}, {}) == 0.0
    stats = pytest.importorskip("scipy.stats", reason="needs scipy")
    random = np.random.default_rng(0)
    for sizes in ((1, 1), (5, 300), (40, 40)):
        one, two = random.normal(size=sizes[0]), random.normal(1.0, 2.0, size=sizes[1]).round(1)
        assert wasserstein(one, two) == pytest.approx(stats.wasserstein_distance(one, two), rel=1e-12)


def test_picture(tmp_path: Path) -> None:
    profiles = {"data": Profile.of(SMILES), "samples": Profile.of(["CC", "c1ccncc1"])}
    path = draw_distributions(tmp_path / "new" / "all.png", profiles)
    assert path.read_bytes().startswith(b"\x89PNG")
    draw_distributions(tmp_path / "chains.png", {"chains": Profile.of(["CC", "CCC"])})  # no ring at all
    with pytest.raises(InputError, match="at least one"):
        draw_distributions(tmp_path / "none.png", {})
    with pytest.raises(InputError, match="at least one"):
        Profile.of([])
