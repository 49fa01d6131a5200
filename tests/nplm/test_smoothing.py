"""Smoothing of signed weights: what it keeps, what it refuses, and what the law must know of it.

False-alarm rates are 1e-3 per check unless stated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps
from scipy import stats
from scipy.special import ndtri

from covad.errors import DatasetError, NegativeExpectationError
from covad.nplm.convex.basis import GaussianBasis, StackedBasis, evaluate
from covad.nplm.convex.convex import columns
from covad.nplm.convex.law import analytic_null, analytic_nulls
from covad.nplm.dataset import Dataset, Response
from covad.nplm.smoothing import (
    Functions,
    SmoothingClosure,
    bump_places,
    smooth,
    smoothing_variance,
    tolerated_negative,
)
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

TEST = bumps(latent.background(5_000, np.random.default_rng(1)), 15, seed=2)
WORLD = LatentWorld(n_reference=10_400, expected=2_000.0)


def test_columns(z: np.ndarray) -> np.ndarray:
    return columns(TEST.basis, z, Response(latent.response(z)), normalisation=True)


test_columns.__test__ = False  # type: ignore[attr-defined]


def signed_sample(n: int, seed: int, uneven: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z, weights = latent.signed_background(n, np.random.default_rng(seed), uneven=uneven)
    return z, weights, test_columns(z)


@pytest.mark.parametrize("unit", [1.0, 3e-7, 2e9])
def test_the_sums_of_the_columns_are_kept_and_weights_are_positive(unit: float) -> None:
    _, weights, x = signed_sample(8_000, 3)
    assert 0.2 < (weights < 0).mean() < 0.3
    smoothing = smooth(x, unit * weights)
    assert (smoothing.weights > 0).all()
    errors = np.sqrt(weights**2 @ x.astype(np.float64) ** 2)
    residuals = (smoothing.weights / unit - weights) @ x.astype(np.float64) / errors
    np.testing.assert_allclose(smoothing.residuals, residuals, atol=1e-9)
    assert np.abs(residuals).max() < 0.1
    assert (smoothing.unmatched, smoothing.negative) == (0, 0)


def test_the_mean_of_the_weights_is_found() -> None:
    """1 - 2 eps(z) falls from 0.9 to 0.2: the smoothed weight follows it, as far as 15 wide bumps can."""
    z, weights, x = signed_sample(50_000, 4)
    truth = 1.0 - 2.0 * (0.05 + 0.35 / (1.0 + np.exp(-1.5 * z[:, 0].astype(np.float64))))
    ratio = smooth(x, weights).weights / truth
    assert ratio.mean() == pytest.approx(1.0, abs=0.03)
    assert ratio.std() < 0.12
    assert (truth / truth.mean()).std() > 0.4


def test_weights_without_signs_stay_as_they_are() -> None:
    z, weights = latent.weighted_background(2_000, np.random.default_rng(5), spread=1.0)
    smoothing = smooth(test_columns(z), weights)
    assert smoothing.weights is weights
    assert smoothing.unmatched == 0
    assert not smoothing_variance(test_columns(z), weights, smoothing.weights, 100.0).any()


def cells_of_sums(*sums: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """One-hot columns and a constant; in each cell so many positive and negative weights of one."""
    cell = np.repeat(np.arange(len(sums)), [p + n for p, n in sums])
    weights = np.concatenate([[1.0] * p + [-1.0] * n for p, n in sums])
    x = (cell[:, None] == np.arange(len(sums))).astype(np.float32)
    return np.hstack([x, np.ones((len(x), 1), np.float32)]), weights


def test_a_sum_that_is_negative_by_chance_is_told_and_harms_no_other() -> None:
    """-2 +- 4.9 in one cell cannot be had by positive weights; the other sums are kept nevertheless."""
    x, weights = cells_of_sums((300, 100), (11, 13), (500, 50))
    smoothing = smooth(x, weights)
    assert smoothing.negative == 1
    assert 1 <= smoothing.unmatched <= 2  # the cell, and perhaps the sum of all
    assert np.abs(smoothing.residuals[[0, 2]]).max() < 0.1
    assert smoothing.residuals[1] == pytest.approx(2 / np.sqrt(24), abs=0.05)
    assert (smoothing.weights > 1e-30).all()


def test_a_negative_expectation_is_refused_with_its_place() -> None:
    x, weights = cells_of_sums((300, 100), (5, 25), (500, 50))
    with pytest.raises(NegativeExpectationError, match=r"^the left: the weights sum to -20 \+- 5\.5, as no"):
        smooth(x, weights, ["here", "the left", "there", "everywhere"])
    smooth(*cells_of_sums((300, 100), (7, 20), (500, 50)))  # -13 +- 5.2 is within three errors
    with pytest.raises(NegativeExpectationError, match=r"^column 2: .* can, one of 2 such places:"):
        smooth(*cells_of_sums((300, 100), (5, 25), (50, 500), (900, 10)))


def test_a_column_of_both_signs_may_have_any_sum() -> None:
    z, weights, x = signed_sample(4_000, 6)
    odd = np.hstack([x, -z[:, :1] - 3.0])
    assert smooth(odd, weights).unmatched == 0


def test_the_place_of_a_bump_is_its_centre() -> None:
    z = latent.background(4_000, np.random.default_rng(7)) * 3.0 + 5.0
    basis = GaussianBasis.from_pool(z, 3, 8)
    bare = replace(basis, constant=False)
    centre = basis.scale.location + basis.scale.scale * basis.centres[1]
    assert bump_places(basis)[1:] == (*bump_places(bare)[1:], "all of z")
    assert bump_places(basis)[1] == f"the bump at z = ({', '.join(f'{x:.2g}' for x in centre)})"
    seen = replace(bare, dimensions=(1,), centres=bare.centres[:, 1:2])
    there = bare.scale.location[1] + bare.scale.scale[1] * bare.centres[1, 1]
    assert bump_places(seen)[1] == f"the bump at z = ({there:.2g}) of dimensions 1"
    assert bump_places(StackedBasis((bare, seen))) == (*bump_places(bare), *bump_places(seen), "all of z")


@pytest.mark.parametrize("bad", [np.ones(9), np.full(10, np.nan), np.array([np.inf] + [-1.0] * 9)])
def test_bad_weights_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(DatasetError, match="10 events need as many finite weights"):
        smooth(np.ones((10, 1), np.float32), bad)


def test_an_empty_column_does_no_harm() -> None:
    _, weights, x = signed_sample(4_000, 9)
    smoothing = smooth(np.hstack([x, np.zeros((len(x), 1), np.float32)]), weights)
    assert smoothing.unmatched == 0
    np.testing.assert_allclose(smoothing.weights, smooth(x, weights).weights, rtol=1e-3)


def narrow(z: np.ndarray) -> Functions:
    """Bumps at other centres, half as wide as those of the test."""
    pool = latent.background(5_000, np.random.default_rng(10))
    basis = GaussianBasis.from_pool(pool, 20, 11, 0.5 * TEST.basis.width)  # type: ignore[attr-defined]
    return Functions.of_bumps(basis, z)


def cells(z: np.ndarray) -> Functions:
    """24 boxes: three along the first coordinate, two along the others."""
    index = np.searchsorted([-0.5, 0.5], z[:, 0])
    for column in z[:, 1:].T:
        index = 2 * index + (column > 0)
    return Functions.of_cells(index, z)


@pytest.mark.parametrize("functions_of", [narrow, cells])
def test_closure_holds_where_the_smoothing_is_right(functions_of: Callable[[np.ndarray], Functions]) -> None:
    """40 samples: p is uniform, which tests the covariance too, with what the fit takes away."""
    p = []
    for seed in range(40):
        z, weights = latent.signed_background(3_000, np.random.default_rng(100 + seed), (0.25, 0.25))
        x, functions = test_columns(z), functions_of(z)
        closure = SmoothingClosure.of(smooth(x, weights), x, weights, functions)
        p.append(closure.p_value)
        assert closure.dof > 10
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_closure_fails_where_the_columns_cannot_follow() -> None:
    """A constant alone keeps the total and nothing else."""
    z, weights, x = signed_sample(6_000, 13)
    constant = x[:, -1:]
    smoothing = smooth(constant, weights)
    assert smoothing.unmatched == 0
    for functions in (narrow(z), cells(z)):
        closure = SmoothingClosure.of(smoothing, constant, weights, functions)
        assert closure.p_value < 1e-10
        assert np.abs(closure.pulls).max() > 5


def test_closure_has_the_sums_it_compares() -> None:
    z, weights, x = signed_sample(6_000, 14)
    smoothing = smooth(x, 1e-6 * weights)
    pool = latent.background(5_000, np.random.default_rng(10))
    fresh = GaussianBasis.from_pool(pool, 6, 3)
    closure = SmoothingClosure.of(smoothing, x, 1e-6 * weights, Functions.of_bumps(fresh, z))
    phi = evaluate(fresh, z).astype(np.float64)
    np.testing.assert_allclose(closure.signed, 1e-6 * weights @ phi, rtol=1e-6)
    np.testing.assert_allclose(closure.smoothed, smoothing.weights @ phi, rtol=1e-6)
    np.testing.assert_allclose(closure.errors, 1e-6 * np.sqrt(weights**2 @ phi**2), rtol=1e-6)


def test_a_negative_cell_is_refused_by_the_closure_with_its_place() -> None:
    z, weights, x = signed_sample(6_000, 15)
    smoothing = smooth(x, weights)
    corner = (z[:, 0] > 0.5) & (z[:, 1] > 0.5)
    index = np.where(corner & (weights < 0), 1, 0)
    mean = z[index == 1].mean(axis=0)
    with pytest.raises(NegativeExpectationError, match=f"^the cell around z = .{mean[0]:.2g}, {mean[1]:.2g}"):
        SmoothingClosure.of(smoothing, x, weights, Functions.of_cells(index, z))


def test_the_noise_of_signs_by_simulation() -> None:
    """Smoothed sums fluctuate over samples as C of the smoothed weights and the noise of the signs say."""
    rng = np.random.default_rng(16)
    n, sums = 2_000, []
    for _ in range(250):
        z, weights = latent.signed_background(n, rng, uneven=3.0)
        x = test_columns(z)
        smoothed = smooth(x, weights).weights
        sums.append(smoothed @ x.astype(np.float64) / smoothed.sum() * 2_000.0)
    z, weights = latent.signed_background(20 * n, rng, uneven=3.0)
    x = test_columns(z)
    smoothed = smooth(x, weights).weights
    own = (x - smoothed @ x / smoothed.sum()) * smoothed[:, None] * (2_000.0 / smoothed.sum())
    variance = 20 * (own.T @ own + smoothing_variance(x, weights, smoothed, 2_000.0))
    # the variance of a variance has the relative error sqrt(2 / 250); the constants have none
    ratio = np.var(sums, axis=0)[:15] / np.diag(variance)[:15]
    assert np.abs(ratio - 1.0).max() < 5 * np.sqrt(2 / 250)
    assert (20 * np.diag(own.T @ own)[:15] / np.var(sums, axis=0)[:15]).max() < 0.5


def signed_toy(n: int, rng: np.random.Generator, uneven: float, keep_signs: bool = True) -> Dataset:
    """Data of the background, and a reference whose weights were smoothed."""
    z, weights = latent.signed_background(n, rng, uneven=uneven)
    weights = smooth(test_columns(z), weights).weights if keep_signs else np.abs(weights)
    return replace(
        WORLD.toy(rng),
        reference=z,
        weights=weights * (WORLD.expected / weights.sum()),
        reference_response=Response(latent.response(z)),
    )


@pytest.mark.parametrize("uneven", [1.0, 3.0])
def test_data_of_another_sample_follow_the_law_with_the_noise_of_the_signs(uneven: float) -> None:
    """60 toys, each with a sample and a smoothing of its own; without that noise the law is caught."""
    rng = np.random.default_rng(np.random.SeedSequence(17, spawn_key=(int(uneven),)))
    n, finer = 8_000, 8
    z, weights = latent.signed_background(finer * n, rng, uneven=uneven)
    x = test_columns(z)
    smoothed = smooth(x, weights).weights
    sample = replace(
        WORLD.toy(rng),
        reference=z,
        weights=smoothed * (WORLD.expected / smoothed.sum()),
        reference_response=Response(latent.response(z)),
    )
    further = finer * smoothing_variance(x, weights, smoothed, WORLD.expected)
    t = [likelihood_ratio(signed_toy(n, rng, uneven), TEST, 0).t for _ in range(60)]
    law = analytic_null(TEST, sample, n_reference=n, further=further).law
    assert stats.kstest(law.sf(t), "uniform").pvalue > 1e-3
    without = analytic_null(TEST, sample, n_reference=n).law
    assert stats.kstest(without.sf(t), "uniform").pvalue < 1e-4
    dropped = [likelihood_ratio(signed_toy(n, rng, uneven, keep_signs=False), TEST, 0).t for _ in range(5)]
    assert stats.combine_pvalues(law.sf(dropped)).pvalue < 1e-10


def test_the_noise_of_the_signs_is_added_and_must_fit() -> None:
    rng = np.random.default_rng(18)
    toy = signed_toy(12_000, rng, 1.0)
    further = np.diag(np.arange(1.0, 19.0))
    at = [analytic_null(TEST, toy, np.array([0.0, nu]), further=further).variance for nu in (0.0, 0.4)]
    none = [analytic_null(TEST, toy, np.array([0.0, nu])).variance for nu in (0.0, 0.4)]
    np.testing.assert_allclose(at[0] - none[0], further, atol=1e-6)
    np.testing.assert_allclose(at[1] - none[1], further, atol=1e-6)
    other = [analytic_nulls(TEST, toy, further=each).at_yield(0.4).variance for each in (further, None)]
    np.testing.assert_allclose(other[0] - other[1], np.exp(0.8) * further, atol=1e-6)
    with pytest.raises(DatasetError, match=r"shape \(3, 3\), but the score has 18 columns"):
        analytic_null(TEST, toy, further=np.eye(3))


@pytest.mark.slow
def test_a_large_sample_is_smoothed_in_seconds() -> None:
    """1.5 million events and 100 bumps: about 8 core-seconds; 40 are tolerated on a busy machine."""
    import time

    rng = np.random.default_rng(19)
    pool = latent.background(20_000, rng)
    test = bumps(pool, 107, seed=3, width=1.0)
    z, weights = latent.signed_background(1_500_000, rng)
    x = columns(test.basis, z, Response(latent.response(z)), normalisation=True)
    clock = time.process_time()
    smoothing = smooth(x, weights)
    assert time.process_time() - clock < 40
    assert x.shape[1] == 110
    assert smoothing.unmatched == 0


def test_the_tolerated_depth_grows_with_the_number_of_places():
    """One in a thousand samples of 23 000 places without expectation has a sum beyond."""
    assert tolerated_negative(1) == pytest.approx(-ndtri(1e-3))
    assert tolerated_negative(23_000) == pytest.approx(-ndtri(1e-3 / 23_000)) == pytest.approx(5.35, abs=0.01)
