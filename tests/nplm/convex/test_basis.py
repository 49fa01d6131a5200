"""The Gaussian basis: values, rules, storage."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from covad.errors import DatasetError, FileFormatError, TooFewEventsError
from covad.nplm.convex.basis import GaussianBasis, evaluate, spread_centres
from covad.toys import latent_world as latent

POOL = latent.background(6_000, np.random.default_rng(1))


def slow_basis(basis: GaussianBasis, z: np.ndarray) -> np.ndarray:
    """The definition, in float64 and one event and bump at a time."""
    rows = []
    for event in z.astype(np.float64):
        u = basis.scale(event)
        bumps = [np.exp(-np.sum((u - c) ** 2) / (2 * basis.width**2)) for c in basis.centres]
        rows.append([*bumps, 1.0] if basis.constant else bumps)
    return np.array(rows)


@pytest.mark.parametrize("constant", [True, False])
def test_values_follow_the_definition(constant: bool) -> None:
    basis = replace(GaussianBasis.from_pool(POOL, 12, 5, width=0.7), constant=constant)
    z = latent.background(700, np.random.default_rng(2))
    assert (basis.n_columns, basis.n_ridged) == (12 + constant, 12)
    np.testing.assert_allclose(evaluate(basis, z), slow_basis(basis, z), atol=3e-6)


def test_values_are_written_in_place_into_wider_columns() -> None:
    basis = GaussianBasis.from_pool(POOL, 10, 5)
    out = np.full((len(POOL), 14), 7.0, dtype=np.float32)
    basis.fill(POOL, out[:, :11])
    np.testing.assert_array_equal(out[:, :11], evaluate(basis, POOL))
    assert (out[:, 11:] == 7.0).all()


def test_a_shift_and_a_scale_of_the_latent_space_change_nothing() -> None:
    moved = (POOL * 3.0 + 5.0).astype(np.float32)
    here, there = (GaussianBasis.from_pool(pool, 10, 5) for pool in (POOL, moved))
    np.testing.assert_allclose(evaluate(here, POOL), evaluate(there, moved), atol=1e-4)


def test_centres_are_different_events_and_cover_the_pool() -> None:
    u = np.random.default_rng(3).standard_normal((3_000, 4))
    centres = spread_centres(u, 40, np.random.default_rng(4))
    assert len(np.unique(centres, axis=0)) == 40
    assert (np.abs(centres[:, None] - u).sum(axis=2).min(axis=1) == 0).all()

    def potential(chosen: np.ndarray) -> float:
        return float(np.square(u[:, None] - chosen).sum(axis=2).min(axis=1).sum())

    uniform = [potential(u[np.random.default_rng(s).choice(3_000, 40, replace=False)]) for s in range(5)]
    assert potential(centres) < min(uniform)


def test_the_seed_decides() -> None:
    first, again, other = (GaussianBasis.from_pool(POOL, 10, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.centres, again.centres)
    assert not np.array_equal(first.centres, other.centres)


def test_storage_round_trip() -> None:
    basis = replace(GaussianBasis.from_pool(POOL, 10, 5, width=0.7), constant=False)
    stored = json.loads(json.dumps(basis.settings()))
    restored = GaussianBasis.restore(basis.arrays(), stored)
    assert (restored.width, restored.constant) == (0.7, False)
    far = np.concatenate([POOL, 100.0 * POOL[:50]])
    np.testing.assert_array_equal(evaluate(basis, far), evaluate(restored, far))


def test_incomplete_storage_is_named() -> None:
    basis = GaussianBasis.from_pool(POOL, 10, 5)
    arrays = basis.arrays()
    del arrays["widths"]
    with pytest.raises(FileFormatError, match="widths"):
        GaussianBasis.restore(arrays, basis.settings())
    with pytest.raises(FileFormatError, match="fourier"):
        GaussianBasis.restore(basis.arrays(), {"kind": "fourier"})


def test_bad_pools_are_named() -> None:
    bad = POOL.copy()
    bad[3, 1] = np.nan
    with pytest.raises(DatasetError, match="not finite"):
        GaussianBasis.from_pool(bad, 10, 5)
    with pytest.raises(TooFewEventsError, match="pool of 5"):
        GaussianBasis.from_pool(POOL[:5], 10, 5)
    with pytest.raises(DatasetError, match="at least one bump, not 0"):
        GaussianBasis.from_pool(POOL, 0, 5)
    with pytest.raises(DatasetError, match="latent dimension 2 is constant over the pool"):
        GaussianBasis.from_pool(POOL * np.array([1, 1, 0, 1], np.float32), 10, 5)


def test_events_with_other_columns_are_named() -> None:
    with pytest.raises(DatasetError, match="3 dimensions"):
        evaluate(GaussianBasis.from_pool(POOL, 10, 5), POOL[:, :3])
