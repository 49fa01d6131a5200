"""t at the nominal yield: against the exact law of the convex test, and against toys of known moments."""

import numpy as np
import pytest
from convex_world import bumps
from scipy.optimize import brentq
from scipy.stats import binom, norm
from toy_world import small_draw, small_ensemble

from covad.errors import InferenceError
from covad.inference.yields import NullMoments
from covad.nplm.convex.law import ConvexNulls, analytic_null, analytic_nulls
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld
from covad.toys.tests import TunedConvex
from covad.toys.toy import run_toy

#: Yields within 30 % of the nominal one, as the docstring of the module has it.
WITHIN = (np.log(0.7), -0.2, -0.1, 0.0, 0.1, 0.2, np.log(1.3))


@pytest.fixture(scope="module")
def nulls() -> ConvexNulls:
    """The nulls of a test like the default one, at a fifth of the events."""
    rng = np.random.default_rng(3)
    test = bumps(latent.background(10_000, rng), 100, seed=2, spread=3.0)
    return analytic_nulls(test, LatentWorld(n_reference=10_400, expected=2_000.0).toy(rng))


def quantile(law, z):
    """t of a law at Z."""
    return brentq(lambda t: float(law.sf(t)) / norm.sf(z) - 1.0, 0.0, law.mean + 20.0 * law.std, xtol=1e-9)


@pytest.mark.parametrize("largest", [0.6, 1.8], ids=["sigma_N = 0.1", "sigma_N = 0.3"])
@pytest.mark.parametrize(("z", "limit"), [(-1.0, 0.006), (1.0, 0.006), (2.0, 0.006), (5.0, 0.04)])
def test_z_of_t_at_the_nominal_yield_is_that_of_the_law_at_the_true_one(nulls, largest, z, limit):
    moments = NullMoments.of_law(lambda x: nulls.at_yield(x).law, largest)
    nominal = nulls.at_yield().law
    for log_yield in WITHIN:
        moved = moments.at_nominal(quantile(nulls.at_yield(log_yield).law, z), log_yield)
        assert norm.isf(nominal.sf(float(moved))) == pytest.approx(z, abs=limit)


@pytest.mark.parametrize(("z", "limit"), [(2.0, 0.02), (5.0, 0.12)])
def test_far_from_the_nominal_yield_it_is_still_good(nulls, z, limit):
    """-60 and +150 %, a yield that is known to 30 %."""
    moments = NullMoments.of_law(lambda x: nulls.at_yield(x).law, 1.8)
    for log_yield in np.log([0.4, 2.5]):
        moved = moments.at_nominal(quantile(nulls.at_yield(log_yield).law, z), log_yield)
        assert norm.isf(nulls.at_yield().law.sf(float(moved))) == pytest.approx(z, abs=limit)


def test_what_it_undoes_is_not_small(nulls):
    """Else the test above could not fail: 2 sigma at 30 % more events is 2.5 sigma of the nominal law."""
    beyond = nulls.at_yield().law.sf(quantile(nulls.at_yield(log_yield=np.log(1.3)).law, 2.0))
    assert norm.isf(beyond) > 2.3


@pytest.mark.parametrize("largest", [0.03, 0.6, 1.8])
def test_moments_are_those_of_the_law_everywhere(nulls, largest):
    moments = NullMoments.of_law(lambda x: nulls.at_yield(x).law, largest)
    for log_yield in np.linspace(-largest, largest, 9):
        law = nulls.at_yield(log_yield).law
        nominal = nulls.at_yield().law
        # t at the mean there, and a standard deviation above it
        moved = moments.at_nominal([law.mean, law.mean + law.std], [log_yield, log_yield])
        assert moved[0] == pytest.approx(nominal.mean, abs=0.01 * nominal.std)
        assert moved[1] - moved[0] == pytest.approx(nominal.std, rel=0.01)


def test_the_law_at_another_yield_is_that_of_datasets_with_it():
    """F e^{nu_N} and C e^{2 nu_N}: as if the reference had weights e^{nu_N} times as large."""
    rng = np.random.default_rng(4)
    test = bumps(latent.background(5_000, rng), 15, seed=2)
    dataset = LatentWorld(n_reference=5_200, expected=1_000.0).toy(rng)
    there = analytic_null(test, dataset, np.array([0.0, 0.3])).law
    moved = analytic_nulls(test, dataset).at_yield(0.3).law
    np.testing.assert_allclose(np.sort(moved.weights), np.sort(there.weights), rtol=1e-6, atol=1e-9)
    assert moved.mean > 1.05 * analytic_null(test, dataset).law.mean


def test_at_the_nominal_yield_t_stays(nulls):
    moments = NullMoments.of_law(lambda x: nulls.at_yield(x).law, 0.6)
    t = np.array([3.0, 45.0, 120.0])
    np.testing.assert_allclose(moments.at_nominal(t, np.zeros(3)), t, rtol=1e-12)


def known_mean(log_yield):
    growth = np.exp(log_yield)
    return 30.0 + 12.0 * growth + 3.0 * growth**2


def known_spread(log_yield):
    return np.sqrt(40.0 + 50.0 * np.exp(log_yield))


def known_toys(rng, log_yield, n_toys):
    """Skewed like a chi2 with 45 degrees of freedom; nu_N is fitted to 2 %."""
    skewed = (rng.chisquare(45, n_toys) - 45.0) / np.sqrt(90.0)
    fitted = log_yield + 0.02 * rng.standard_normal(n_toys)
    return known_mean(fitted) + known_spread(fitted) * skewed, fitted


YIELDS = (-0.3, -0.15, 0.0, 0.15, 0.3)


def test_moments_of_toys_are_found_and_undone():
    """400 toys at each of five yields, as a study has; then 4000 others at each, in all of which t' is alike.

    m has a standard error of s / sqrt(400) there, s of 1 / sqrt(2 * 400) (1.15 for skewness): limits of 5.
    """
    rng = np.random.default_rng(161)
    columns = [np.concatenate(x) for x in zip(*(known_toys(rng, nu, 400) for nu in YIELDS), strict=True)]
    moments = NullMoments.of_toys(*columns, n_yields=5)
    for log_yield in (*YIELDS, 0.07, -0.22):
        t, fitted = known_toys(rng, log_yield, 4000)
        moved = moments.at_nominal(t, fitted)
        assert moved.mean() == pytest.approx(
            known_mean(0.0), abs=5 * known_spread(0.0) * np.hypot(0.05, 0.016)
        )
        assert moved.std() / known_spread(0.0) == pytest.approx(1.0, abs=5 * 1.15 * np.hypot(0.035, 0.011))
        if abs(log_yield) > 0.2:
            assert abs(t.mean() - known_mean(0.0)) > 5 * known_spread(0.0) * np.hypot(0.05, 0.016)


def test_beyond_the_yields_of_the_toys_the_nearest_one_counts():
    rng = np.random.default_rng(162)
    columns = [np.concatenate(x) for x in zip(*(known_toys(rng, nu, 50) for nu in YIELDS), strict=True)]
    moments = NullMoments.of_toys(*columns, n_yields=5)
    low, high = columns[1].min(), columns[1].max()
    assert moments.at_nominal(60.0, 5.0) == moments.at_nominal(60.0, high)
    assert moments.at_nominal(60.0, -5.0) == moments.at_nominal(60.0, low)
    assert [moments.covers(x) for x in (low - 0.01, low, 0.0, high, high + 0.01)] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_too_few_toys_are_refused():
    with pytest.raises(InferenceError, match="the null at several yields has 89 toys: at least 90"):
        NullMoments.of_toys(np.ones(89), np.zeros(89), 3)
    with pytest.raises(InferenceError, match="finite"):
        NullMoments.of_toys([np.nan] * 50, np.zeros(50), 1)


def test_a_spread_that_comes_out_negative_is_taken_as_constant():
    log_yield = np.log(np.repeat([0.5, 1.0, 2.0], 30))
    t = np.where(log_yield < 0, np.tile([1.0, -1.0], 45), 0.0)
    moments = NullMoments.of_toys(t, log_yield, 3)
    assert np.ptp(moments.std) == 0.0
    assert moments.std[0] > 0.0


@pytest.mark.slow
def test_more_background_alarms_by_the_law_at_the_expected_yield_and_not_at_the_fitted_one():
    """Truth +2 sigma_N = 0.2, 1500 toys of 1000 data: 34 are meant beyond 2 sigma, 77 are there by the law.

    Three limits, each wrong in one of a thousand runs: too many for the law at nu_N = 0, not too many and not
    too few for t at the nominal yield. With 77 expected the first is passed with a probability of 99.6 %.
    """
    test = TunedConvex(bumps=100, expected=1000.0, reference=5200)
    ensemble = small_ensemble(test, seed=16, expected=1000, n_reference=5200, nu_norm=2)
    source, built = ensemble.source, test.build(ensemble.source)
    large = source.draw(small_draw(expected=1000, n_reference=41_600), ensemble.seeds(0))
    nulls = analytic_nulls(built, large, n_reference=5200)
    moments = NullMoments.of_law(lambda x: nulls.at_yield(x).law, 0.6)
    toys = [run_toy(ensemble, index) for index in range(1500)]
    t = np.array([toy.t for toy in toys])
    law, alpha = nulls.at_yield().law, norm.sf(2.0)
    raw = int((law.sf(t) <= alpha).sum())
    moved = int((law.sf(moments.at_nominal(t, [toy.log_yield for toy in toys])) <= alpha).sum())
    print(f"beyond 2 sigma of {len(t)}: {raw} by t, {moved} at the nominal yield, {alpha * len(t):.0f} meant")
    assert binom.sf(raw - 1, len(t), alpha) < 1e-3
    assert binom.sf(moved - 1, len(t), alpha) > 1e-3
    assert binom.cdf(moved, len(t), alpha) > 1e-3
