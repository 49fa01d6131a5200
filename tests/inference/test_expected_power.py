"""Power in second order: the rate of false alarms without a signal, and that of toys with a weak one."""

import numpy as np
import pytest

from covad.inference.expected_power import AdaptivePower, SecondOrderPower
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import choose_members
from covad.nplm.convex.capacity import with_capacity
from covad.nplm.dataset import Response
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

WORLD = LatentWorld(6000, 1500.0)


@pytest.fixture(scope="module")
def power() -> SecondOrderPower:
    sizes = Sizes(expected=1500.0, reference=6000)
    pool = latent.background(8000, np.random.default_rng(1))
    test = with_capacity(pool, 20, 0, 8.0, 3.0, sizes)
    return SecondOrderPower.of(test, WORLD.toy(np.random.default_rng(2)), 6000)


def signal_power(power: SecondOrderPower | AdaptivePower, injected: float) -> float:
    z = latent.signal(3000, np.random.default_rng(3))
    return power.power(z, latent_response(z), injected, 2.0)


def latent_response(z):
    return Response(latent.response(z, 1))


def test_without_signal_it_is_the_rate_of_false_alarms(power):
    """4000 draws: the rate 0.0228 has a standard deviation of 0.0024, and 0.012 is five of them."""
    assert signal_power(power, 1e-9) == pytest.approx(0.0228, abs=0.012)


def test_it_grows_with_the_signal(power):
    powers = [signal_power(power, n) for n in (10.0, 40.0, 160.0)]
    assert powers == sorted(powers)
    assert powers[-1] > powers[0] + 0.2


def test_toys_with_a_weak_signal_agree(power):
    """100 toys: three standard deviations are at most 0.15; the formula may be too high, by up to 1.9."""
    injected, threshold = 60.0, power.null.law.isf(0.02275)
    toys = (WORLD.toy(np.random.default_rng([4, i]), expected_signal=injected) for i in range(100))
    found = np.mean([likelihood_ratio(toy, power.test, 0).t > threshold for toy in toys])
    formula = signal_power(power, injected)
    assert found - 0.15 < formula < 1.9 * found + 0.15


@pytest.fixture(scope="module")
def adaptive() -> AdaptivePower:
    pool = latent.background(8000, np.random.default_rng(1))
    settings = AdaptiveSettings(capacities=(5.0, 10.0), bumps=(15, 30), together=(3.0, 10.0))
    members = choose_members(pool, settings, Sizes(expected=1500.0, reference=6000))
    return AdaptivePower.of(AdaptiveTest(members), WORLD.toy(np.random.default_rng(2)), 6000)


def test_the_adaptive_test_alarms_without_signal_as_its_law_says(adaptive):
    """2000 draws: the rate 0.0228 has a standard deviation of 0.0033, and 0.014 is four of them."""
    assert signal_power(adaptive, 1e-9) == pytest.approx(0.0228, abs=0.014)


def test_toys_of_the_adaptive_test_agree(adaptive):
    """50 toys: three standard deviations are at most 0.21; the formula may be too high, by up to 1.9."""
    injected, threshold = 30.0, adaptive.threshold(2.0)
    toys = (WORLD.toy(np.random.default_rng([4, i]), expected_signal=injected) for i in range(50))
    found = np.mean([likelihood_ratio(toy, adaptive.test, 0).t > threshold for toy in toys])
    formula = signal_power(adaptive, injected)
    assert 0.2 < formula < 0.8
    assert found - 0.21 < formula < 1.9 * found + 0.21


def test_many_events_are_as_good_as_all_of_them(adaptive, monkeypatch):
    """The sum over many events is scaled from fewer: 2000 draws each, so that 0.05 is three deviations."""
    powers = [signal_power(adaptive, 40.0)]
    monkeypatch.setattr("covad.inference.expected_power._MOST_EVENTS", 20.0)
    powers.append(signal_power(adaptive, 40.0))
    assert powers[0] == pytest.approx(powers[1], abs=0.05)


def test_the_threshold_is_that_of_the_law(adaptive):
    assert adaptive.null.law.sf(adaptive.threshold(2.0)) == pytest.approx(0.02275, rel=1e-3)
    assert adaptive.threshold(3.0) > adaptive.threshold(2.0)


def test_the_median_z_is_where_half_of_the_draws_are(adaptive):
    """Half of the draws exceed the median Z by definition; without a signal it is 0 +- 0.03."""
    events = latent.signal(3000, np.random.default_rng(3))
    response = latent_response(events)
    median = adaptive.median_z(events, response, 40.0)
    assert adaptive.power(events, response, 40.0, median) == pytest.approx(0.5, abs=1e-3)
    assert adaptive.median_z(events, response, 1e-9) == pytest.approx(0.0, abs=0.12)
    assert np.isfinite(adaptive.median_z(events, response, 1500.0))  # p is zero in float64
