"""The best of 1-D tests: it sees one observable among many, and its trials are counted."""

import numpy as np
import pytest

from covad.nplm.dataset import Dataset, Response
from covad.yardsticks.observables import BestObservable, trials
from covad.yardsticks.yardstick import SeenToy


def toy(seed: int, shift: float = 0.0) -> SeenToy:
    rng = np.random.default_rng(seed)
    reference, data = (rng.normal(size=(n, 6)).astype(np.float32) for n in (4000, 800))
    data[:, 4] += shift
    known = Dataset(
        reference[:, :2],
        data[:, :2],
        np.full(4000, 0.2),
        Response.none(4000),
        Response.none(800),
        np.empty(0),
    )
    return SeenToy(
        known,
        {"z": reference[:, :2], "observables": reference[:, 2:]},
        {"z": data[:, :2], "observables": data[:, 2:]},
    )


@pytest.fixture(scope="module")
def best() -> BestObservable:
    return BestObservable.of(np.random.default_rng(0).normal(size=(4000, 6)).astype(np.float32), 800.0)


def test_a_shift_of_one_observable_is_seen(best):
    assert best.statistic(toy(1, shift=0.3), 0) > 20.0 > best.statistic(toy(1), 0)


def test_independent_observables_count_one_trial_each(best):
    """200 toys: the rate 0.1 has a relative error of 21 %, so that 4 of six trials are three errors."""
    null = np.array([best.statistic(toy(10 + i), 0) for i in range(200)])
    assert trials(null, 0.1) == pytest.approx(6.0, abs=4.0)


def test_an_observable_that_is_always_the_same_has_one_bin():
    events = np.zeros((100, 1), np.float32)
    best = BestObservable.of(events, 100.0)
    known = Dataset(
        events, events[:50], np.full(100, 0.5), Response.none(100), Response.none(50), np.empty(0)
    )
    assert best.statistic(SeenToy(known, {"z": events}, {"z": events[:50]}), 0) < 2.0
