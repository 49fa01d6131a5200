"""The supervised ceiling: the Z of known densities, and nothing where signal and background are alike."""

import numpy as np
import pytest

from covad.yardsticks.supervised import OutOfFold, SupervisedCeiling
from covad.yardsticks.yardstick import Target


def ceiling(signal_mean: float, injected: float, expected: float) -> SupervisedCeiling:
    rng = np.random.default_rng(0)
    background = rng.normal(size=(8000, 2)).astype(np.float32)
    signal = rng.normal(size=(4000, 2)).astype(np.float32)
    signal[:, 0] += signal_mean
    halves = np.arange(4000) % 2
    folds = OutOfFold.train(background[::2], signal, halves, 1)
    scores = folds.score(background[1::2], np.arange(4000) % 2), folds.score(signal, halves)
    return SupervisedCeiling.of(Target("signal", injected), "z", 0, scores, expected)


def test_an_event_is_judged_by_the_classifier_that_has_not_seen_it():
    """Signal and background are alike: what is left is S / sqrt B, more would be learned by heart.

    40 bins of 4000 events each way: their noise adds 40 (1/100 + 1/100) of S^2 / B, so that Z is 1.34 times
    as large; 1.6 times is more.
    """
    assert ceiling(0.0, 20.0, 1000.0).expected_z < 1.6 * 20.0 / np.sqrt(1000.0)


def test_the_expected_z_is_that_of_the_densities():
    """Against the exact integral over a shift by one: bins, trees and 4000 events cost about a tenth."""
    found = ceiling(1.0, 30.0, 1000.0)
    x = np.linspace(-8, 9, 20_001)
    b, s = (n * np.exp(-0.5 * (x - m) ** 2) / np.sqrt(2 * np.pi) for n, m in ((1000.0, 0.0), (30.0, 1.0)))
    exact = np.sqrt(2.0 * np.trapezoid((s + b) * np.log1p(s / b) - s, x))
    assert found.expected_z == pytest.approx(exact, rel=0.15)


def test_a_signal_where_no_background_is_has_a_bound():
    assert ceiling(12.0, 30.0, 1000.0).limited
    assert not ceiling(0.5, 30.0, 1000.0).limited
