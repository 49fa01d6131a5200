"""Power curves."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from covad.errors import InferenceError
from covad.inference.power import power_curve
from covad.inference.significance import AnalyticNull, EmpiricalNull

GAUSSIAN = AnalyticNull(norm.sf, "gaussian")
Z_ALPHA = np.array([0.5, 1.0, 1.5, 2.0, 2.5])


def test_the_power_of_the_null_is_alpha_with_an_analytic_null():
    curve = power_curve(np.random.default_rng(1).normal(size=4000), GAUSSIAN, Z_ALPHA)
    # five thresholds, each outside 0.1 % binomial limits: a false alarm in 200
    low, high = binom.ppf([5e-4, 1.0 - 5e-4], 4000, curve.alpha[:, None]).T / 4000
    assert ((low <= curve.power) & (curve.power <= high)).all()


def test_the_power_of_the_null_is_alpha_on_average_with_an_empirical_null():
    rng = np.random.default_rng(2)
    powers = [
        power_curve(rng.normal(size=99), EmpiricalNull(rng.normal(size=99)), Z_ALPHA[:4]).power
        for _ in range(400)
    ]
    exact = np.floor(norm.sf(Z_ALPHA[:4]) * 100) / 100
    error = np.std(powers, axis=0) / np.sqrt(400)
    # five standard errors in four places: a false alarm in 4e5
    assert (np.abs(np.mean(powers, axis=0) - exact) < 5 * error).all()


def test_power_grows_with_the_signal_and_falls_with_the_threshold():
    rng = np.random.default_rng(3)
    null = EmpiricalNull(rng.normal(size=400))
    noise = rng.normal(size=400)
    weak, strong = (power_curve(noise + shift, null, Z_ALPHA) for shift in (0.5, 2.0))
    assert (strong.power > weak.power).all()
    assert (np.diff(strong.power) <= 0).all()
    assert ((weak.low <= weak.power) & (weak.power <= weak.high)).all()


def test_bands_cover_the_true_power():
    rng = np.random.default_rng(4)
    truth = norm.sf(1.5 - 1.0)
    covered = [
        c.low[0] <= truth <= c.high[0]
        for c in (
            power_curve(rng.normal(1.0, 1.0, 300), EmpiricalNull(rng.normal(size=400)), 1.5)
            for _ in range(600)
        )
    ]
    # 68 % with both finite samples inside; four standard errors
    assert 0.68 - 4 * np.sqrt(0.68 * 0.32 / 600) < np.mean(covered) < 0.9


def test_thresholds_beyond_the_toys_are_not_resolved():
    null = EmpiricalNull(np.arange(400.0))
    curve = power_curve(np.full(50, 1e6), null, [2.8, 2.9])
    assert curve.resolved.tolist() == [True, False]
    assert curve.power.tolist() == [1.0, 0.0]
    assert curve.high[1] == 1.0


def test_failed_toys_are_refused():
    with pytest.raises(InferenceError, match="not finite"):
        power_curve([1.0, np.nan], GAUSSIAN, 1.0)
