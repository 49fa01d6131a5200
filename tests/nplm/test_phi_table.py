"""Memory-mapped features of pool events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from covad import latent
from covad.errors import DatasetError, FileFormatError
from covad.nplm.convex import ConvexAlternative
from covad.nplm.dataset import Dataset, Response
from covad.nplm.features import GaussianFeatures, evaluate
from covad.nplm.phi_table import PhiTable
from covad.nplm.statistic import likelihood_ratio

POOL = latent.background(4_000, np.random.default_rng(1))
FEATURES = GaussianFeatures.from_pool(latent.background(2_000, np.random.default_rng(2)), 15, 3)


def test_rows_are_those_of_the_features(tmp_path: Path) -> None:
    table = PhiTable.create(tmp_path / "phi.npy", FEATURES, POOL)
    indices = np.random.default_rng(4).permutation(4_000)[:300]
    np.testing.assert_array_equal(table.gather(indices), evaluate(FEATURES, POOL)[indices])
    assert [path.name for path in tmp_path.iterdir()] == ["phi.npy"]


def test_a_gathered_toy_has_the_t_of_the_raw_one(tmp_path: Path) -> None:
    table = PhiTable.create(tmp_path / "phi.npy", FEATURES, POOL)
    reference, data = np.arange(3_000), np.arange(3_000, 3_600)

    def dataset(z_reference: np.ndarray, z_data: np.ndarray) -> Dataset:
        none = Response.none
        weights = np.full(3_000, 0.2)
        return Dataset(z_reference, z_data, weights, none(3_000), none(600), np.zeros(0))

    raw = likelihood_ratio(dataset(POOL[reference], POOL[data]), ConvexAlternative(FEATURES, 2.0), 0)
    rows = dataset(table.gather(reference), table.gather(data))
    assert likelihood_ratio(rows, ConvexAlternative(table.features, 2.0), 0).t == pytest.approx(
        raw.t, abs=1e-6
    )


def test_bad_tables_are_named(tmp_path: Path) -> None:
    path = tmp_path / "phi.npy"
    np.save(path, np.zeros((10, 3), dtype=np.float32))
    with pytest.raises(FileFormatError, match="16 columns"):
        PhiTable.open(path, FEATURES)
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"phi\.npy"):
        PhiTable.open(path, FEATURES)


def test_events_beyond_the_table_are_named(tmp_path: Path) -> None:
    table = PhiTable.create(tmp_path / "phi.npy", FEATURES, POOL)
    with pytest.raises(DatasetError, match="4000"):
        table.gather(np.array([3, 4_000]))
