import numpy as np
import pytest

from covad.events.weights import WeightTotals, accepted, effective_number


def test_effective_numbers_of_weights_that_nearly_cancel():
    nothing = WeightTotals()
    assert (nothing.effective, nothing.negative_share) == (0.0, 0.0)
    cancelled = nothing + WeightTotals.of(np.array([1.0, -1.0]))
    assert (cancelled.effective, cancelled.negative_share) == (0.0, 0.5)
    assert (cancelled + WeightTotals.of(np.array([1.0]))).effective == pytest.approx(1 / 3)


def test_totals_of_parts_add_up():
    weights = np.random.default_rng(1).normal(1.0, 1.0, 1000)
    parts = WeightTotals.of(weights[:300]) + WeightTotals.of(weights[300:])
    assert (parts.n_events, parts.n_negative) == (1000, (weights < 0).sum())
    assert parts.total == pytest.approx(weights.sum())
    assert parts.effective == pytest.approx(effective_number(weights))


def test_equal_weights_count_as_they_are_and_no_events_as_none():
    assert effective_number(np.full(7, 0.5)) == pytest.approx(7.0)
    assert effective_number(np.empty(0)) == 0.0


def test_events_are_accepted_in_proportion_to_their_weights():
    """Of 20 000 events of weight 1 among others of weight 4, a quarter within 4 sigma (6e-5)."""
    weights = np.repeat([1.0, 4.0], 20_000)
    taken = accepted(weights, 3)
    assert taken[20_000:].all()
    assert abs(taken[:20_000].sum() - 5000) < 4 * np.sqrt(20_000 * 0.25 * 0.75)
    np.testing.assert_array_equal(taken, accepted(weights, 3))
