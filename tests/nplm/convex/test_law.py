"""The analytic null: closed forms, and toys of a small world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmark_module import load
from convex_world import Precomputed, bumps
from scipy import stats

from covad.errors import DatasetError
from covad.nplm.convex.convex import ConvexProblem, ConvexTest
from covad.nplm.convex.law import ConvexNull, ScoreMoments, analytic_null
from covad.nplm.dataset import Dataset, Normalisation, Response
from covad.nplm.fit import Status
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

TEST = bumps(latent.background(5_000, np.random.default_rng(1)), 15, seed=2)
WORLD = LatentWorld(n_reference=10_400, expected=2_000.0)


def one_hot(n_bins: int, n_reference: int, yield_expected: float, rng: np.random.Generator) -> Dataset:
    """A null toy in equal bins, with a reference of fixed size."""
    identity = np.eye(n_bins, dtype=np.float32)
    reference = identity[rng.integers(n_bins, size=n_reference)]
    data = identity[rng.integers(n_bins, size=rng.poisson(yield_expected))]
    weights = np.full(n_reference, yield_expected / n_reference)
    none = Response.none
    return Dataset(reference, data, weights, none(n_reference), none(len(data)), np.zeros(0))


def test_one_hot_null_is_known() -> None:
    """(1 + N_D/N_R) chi2_{M-1} + chi2_1: the reference fluctuates in shape but not in size."""
    dataset = one_hot(6, 3_000, 600.0, np.random.default_rng(3))
    weights = analytic_null(ConvexTest(Precomputed(6, 6), 0.0), dataset).law.weights
    np.testing.assert_allclose(np.sort(weights), [1.0, 1.2, 1.2, 1.2, 1.2, 1.2], atol=1e-5)


def test_one_hot_toys_follow_it() -> None:
    test = ConvexTest(Precomputed(6, 6), 0.0)
    rng = np.random.default_rng(4)
    toys = [one_hot(6, 6_000, 3_000.0, rng) for _ in range(300)]
    law = analytic_null(test, toys[0]).law
    # false-alarm rate 1e-3
    assert stats.kstest(law.sf([likelihood_ratio(toy, test, 0).t for toy in toys]), "uniform").pvalue > 1e-3


def test_toys_with_discrete_coordinates_follow_the_law() -> None:
    """A number of jets and a rare second lepton beside two continuous observables; the yield is profiled."""

    def events(n: int, rng: np.random.Generator) -> np.ndarray:
        jets, leptons = rng.poisson(1.2, n), 1 + (rng.random(n) < 0.04)
        pt = rng.exponential(20.0, n) * (1 + jets)
        return np.column_stack([jets, leptons, pt, rng.normal(leptons, 0.5)]).astype(np.float32)

    rng = np.random.default_rng(17)
    test = bumps(events(4_000, rng), 20, seed=3)
    assert test.basis.scale.scale[1] == 0.5  # type: ignore[attr-defined]
    n_reference, expected, none = 4_000, 1_000.0, Response.none
    weights, p = np.full(n_reference, expected / n_reference), []
    for _ in range(300):
        nu = 0.1 * rng.standard_normal()
        reference, data = events(n_reference, rng), events(rng.poisson(expected * np.exp(nu)), rng)
        auxiliary = Normalisation(0.1, nu + 0.1 * rng.standard_normal())
        toy = Dataset(reference, data, weights, none(n_reference), none(len(data)), np.zeros(0), auxiliary)
        p.append(float(analytic_null(test, toy).law.sf(likelihood_ratio(toy, test, 0).t)))
    # false-alarm rate 1e-3
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_without_ridge_and_reference_noise_it_is_wilks() -> None:
    """Every direction of h that no nuisance covers is one degree of freedom."""
    x = np.random.default_rng(5).standard_normal((4_000, 7)).astype(np.float32)
    moments = ScoreMoments.of(x, np.full(4_000, 0.5), np.ones(4_000))
    exact = ScoreMoments(moments.information, np.zeros((7, 7)))
    law = ConvexNull.of(exact, np.zeros(7), np.array([0.0] * 5 + [1.0, 4.0]), 5).law
    np.testing.assert_allclose(np.sort(law.weights), [0, 0, 1, 1, 1, 1, 1], atol=1e-9)


def test_moments_of_the_score_by_simulation() -> None:
    """The variance of y over toys is V, auxiliary values included."""
    world = LatentWorld(n_reference=520, expected=100.0)
    rng = np.random.default_rng(6)
    big = LatentWorld(n_reference=52_000, expected=100.0).toy(rng)
    null = analytic_null(TEST, big, n_reference=520)
    scores = []
    for _ in range(1_500):
        problem = ConvexProblem.of(TEST, world.toy(rng))
        scores.append(problem.likelihood.penalised.ascent(np.zeros(18))[1])
    # eigenvalues of a whitened variance lie between the edges (1 +- sqrt(18/1500))^2, here with some room
    root = np.linalg.inv(np.linalg.cholesky(null.variance))
    eigenvalues = np.linalg.eigvalsh(np.cov(root @ np.array(scores).T))
    assert eigenvalues.min() > 0.70
    assert eigenvalues.max() < 1.36


@pytest.mark.parametrize("nu", [0.0, 1.0])
def test_profiled_toys_follow_the_analytic_null(nu: float) -> None:
    rng = np.random.default_rng(np.random.SeedSequence(20261115, spawn_key=(100, int(nu))))
    big = LatentWorld(n_reference=104_000, expected=2_000.0).toy(rng)
    null = analytic_null(TEST, big, np.array([nu, 0.0]), n_reference=WORLD.n_reference)
    results = [likelihood_ratio(WORLD.toy(rng, nu), TEST, 0) for _ in range(150)]
    assert {result.status for result in results} == {Status.CONVERGED}
    # false-alarm rate 1e-3 each
    assert stats.kstest(null.law.sf([result.t for result in results]), "uniform").pvalue > 1e-3


def test_the_quadratic_form_is_close_toy_by_toy() -> None:
    rng = np.random.default_rng(8)
    null = analytic_null(
        TEST, LatentWorld(n_reference=104_000, expected=2_000.0).toy(rng), n_reference=10_400
    )
    differences = []
    for _ in range(40):
        dataset = WORLD.toy(rng)
        y = ConvexProblem.of(TEST, dataset).likelihood.penalised.ascent(np.zeros(18))[1]
        differences.append(likelihood_ratio(dataset, TEST, 0).t - null.quadratic_t(y))
    assert np.std(differences) < 0.15 * null.law.std


def test_a_wrong_null_is_detected() -> None:
    """Without nuisances, data at nu = 2 do not follow the null: the comparison can fail."""
    world = LatentWorld(n_reference=10_400, expected=2_000.0, n_nuisances=0, normalisation_sigma=None)
    rng = np.random.default_rng(9)
    law = analytic_null(TEST, world.toy(rng)).law
    t = [likelihood_ratio(world.toy(rng, 2.0), TEST, 0).t for _ in range(60)]
    assert stats.kstest(law.sf(t), "uniform").pvalue < 1e-3


def test_the_variance_of_the_reference_scales_with_its_size() -> None:
    dataset = WORLD.toy(np.random.default_rng(10))
    half = analytic_null(TEST, dataset, n_reference=5_200).law.mean
    whole = analytic_null(TEST, dataset).law.mean
    endless = analytic_null(TEST, dataset, n_reference=10**12).law.mean
    assert half - endless == pytest.approx(2.0 * (whole - endless), rel=1e-6)


def test_uneven_weights_raise_the_noise_of_the_reference() -> None:
    """C is sum w^2 times the centred covariance: weights 1 +- 1/2 raise it by 1 + 1/4."""
    x = np.random.default_rng(11).standard_normal((200_000, 2)).astype(np.float32)
    flat = np.ones(200_000)
    even = ScoreMoments.of(x, flat, flat).reference_variance
    uneven = ScoreMoments.of(x, np.tile([0.5, 1.5], 100_000), flat).reference_variance
    np.testing.assert_allclose(np.diag(uneven) / np.diag(even), 1.25, rtol=0.01)


def test_away_from_the_reference_its_weighted_sums_fluctuate_as_a_whole() -> None:
    """The sum over N independent events has N times the variance of one term, w e^f x."""
    rng = np.random.default_rng(13)
    x = np.column_stack([np.ones(5_000), rng.standard_normal(5_000)]).astype(np.float32)
    growth = np.exp(0.5 * x[:, 1].astype(np.float64))
    moments = ScoreMoments.of(x, np.full(5_000, 0.2), growth)
    terms = 0.2 * growth[:, None] * x
    np.testing.assert_allclose(moments.reference_variance, 5_000 * np.cov(terms.T, bias=True), rtol=1e-10)
    np.testing.assert_allclose(moments.information, terms.T @ x, rtol=1e-10)


def test_degenerate_features_without_ridge_are_named() -> None:
    columns = np.ones((100, 2), dtype=np.float32)
    with pytest.raises(DatasetError, match="ridge"):
        ConvexNull.of(ScoreMoments.of(columns, np.ones(100), np.ones(100)), np.zeros(2), np.zeros(2), 2)


@pytest.mark.parametrize("sigma", [1e-6, 1e-8, 1e-12, 1e-30])
def test_a_yield_that_is_known_too_well_is_one_that_is_exact(sigma: float) -> None:
    """The precision 1 / sigma^2 of the yield stands beside curvatures of about 1."""
    rng = np.random.default_rng(12)
    world = LatentWorld(n_reference=2_000, expected=400.0)
    exact = replace(world.toy(rng), normalisation=None)
    known = replace(exact, normalisation=Normalisation(sigma, 0.0))
    wanted = analytic_null(TEST, exact, np.array([0.3])).law
    found = analytic_null(TEST, known, np.array([0.3, 0.0])).law
    assert (found.mean, found.std) == pytest.approx((wanted.mean, wanted.std), rel=1e-6)


def test_columns_in_other_units_have_the_same_law() -> None:
    """Form and variance answer in the units that they were asked in."""
    rng = np.random.default_rng(13)
    x = rng.standard_normal((4_000, 7)).astype(np.float32)
    unit = 10.0 ** rng.uniform(-4, 4, 7)
    ridge, auxiliary = np.array([2.0] * 5 + [0.0] * 2), np.array([0.0] * 5 + [1.0, 4.0])
    moments = ScoreMoments.of(x, np.full(4_000, 0.5), np.ones(4_000))
    units = np.outer(unit, unit)
    scaled = ScoreMoments(units * moments.information, units * moments.reference_variance)
    one = ConvexNull.of(moments, ridge, auxiliary, 5)
    other = ConvexNull.of(scaled, unit**2 * ridge, unit**2 * auxiliary, 5)
    np.testing.assert_allclose(other.law.weights, one.law.weights, atol=1e-10)
    np.testing.assert_allclose(other.variance, units * one.variance, rtol=1e-10)
    np.testing.assert_allclose(units * other.form, one.form, atol=1e-10 * np.abs(one.form).max())
    # as by the formulas of the module, in the units of the columns
    inverse = np.linalg.inv(moments.information + np.diag(auxiliary + ridge))
    form = inverse + (inverse * ridge) @ inverse
    form[5:, 5:] -= np.linalg.inv((moments.information + np.diag(auxiliary))[5:, 5:])
    np.testing.assert_allclose(one.form, form, atol=1e-10 * np.abs(form).max())


def test_a_column_without_curvature_is_refused() -> None:
    moments = ScoreMoments(np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(DatasetError, match="a ridge > 0 is needed"):
        ConvexNull.of(moments, np.zeros(2), np.array([0.0, 1.0]), 1)


def weighted_toy(rng: np.random.Generator, times: int = 1, tilt: float = 0.0) -> Dataset:
    """Data of the background beside a reference of log-normal weights, worth a third of its number."""
    z, weights = latent.weighted_background(times * WORLD.n_reference, rng, np.sqrt(np.log(3.0)), tilt)
    weights *= WORLD.expected / weights.sum()
    return replace(
        WORLD.toy(rng), reference=z, weights=weights, reference_response=Response(latent.response(z))
    )


@pytest.mark.parametrize("tilt", [0.0, 0.4])
def test_toys_with_a_weighted_reference_follow_the_law(tilt: float) -> None:
    """150 toys, false-alarm rate 1e-3; the law of equal weights, without sum w^2, is caught.

    With a tilt the weights depend on z: events are drawn from another density.
    """
    rng = np.random.default_rng(np.random.SeedSequence(20, spawn_key=(int(10 * tilt),)))
    sample = weighted_toy(rng, times=10, tilt=tilt)
    effective = 1.0 / np.square(sample.weights / sample.weights.sum()).sum()
    assert effective / len(sample.weights) < 0.37
    t = [likelihood_ratio(weighted_toy(rng, tilt=tilt), TEST, 0).t for _ in range(150)]
    law = analytic_null(TEST, sample, n_reference=WORLD.n_reference).law
    assert stats.kstest(law.sf(t), "uniform").pvalue > 1e-3
    equal = analytic_null(
        TEST,
        LatentWorld(n_reference=104_000, expected=2_000.0).toy(rng),
        n_reference=WORLD.n_reference,
    ).law
    assert stats.kstest(equal.sf(t), "uniform").pvalue < 1e-6


def test_a_part_of_a_weighted_reference_has_the_law_of_its_own_size() -> None:
    """Events count as what they are worth in both: the law from 10 times as many agrees with that of one."""
    rng = np.random.default_rng(21)
    large = analytic_null(TEST, weighted_toy(rng, times=10), n_reference=WORLD.n_reference).law
    own = np.mean([analytic_null(TEST, weighted_toy(rng)).law.mean for _ in range(10)])
    assert own == pytest.approx(large.mean, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lognormal", "along", "signed", "signed-part", "signed-uneven"])
def test_two_thousand_weighted_toys_follow_the_law(name: str) -> None:
    """Mean and spread within 4 standard errors, KS at 1e-4: false alarms once in 5000 each.

    A law that leaves out what the weights do is caught by each of the three.
    """
    benchmark = load("weights_law")
    study = benchmark.STUDIES[name]
    t = np.array([benchmark.toy(study, index)["t"] for index in range(2_000)])
    right, wrong, *_ = benchmark.laws(study).values()
    error = right.std / np.sqrt(len(t))
    kurtosis = float(stats.kurtosis(t))
    assert abs(t.mean() - right.mean) < 4 * error
    assert abs(t.std() / right.std - 1) < 4 * np.sqrt((kurtosis + 2) / 4 / len(t))
    assert stats.kstest(right.sf(t), "uniform").pvalue > 1e-4
    assert t.mean() - wrong.mean > 10 * error
    assert t.std() / wrong.std - 1 > 0.1
    assert stats.kstest(wrong.sf(t), "uniform").pvalue < 1e-20
