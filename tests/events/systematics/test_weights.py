"""Weights that nu changes: log-linear in |nu|, positive ratios only, and nothing moves."""

from dataclasses import replace

import numpy as np
import pytest
from samples import random_events, weighted_events

from covad.errors import CovadError
from covad.events.selection import NO_CUTS
from covad.events.systematics import (
    BadEventError,
    JetEnergyScale,
    ProcessNormalisation,
    Restricted,
    Shifting,
    UserWeights,
    WeightColumns,
    shift_events,
)

COLUMNS = WeightColumns("pileup", "up", "down")


def with_columns(n_events=200, seed=3):
    events = weighted_events(n_events, seed)
    rng = np.random.default_rng(seed)
    ratios = {"up": np.exp(0.2 * rng.random(n_events)), "down": np.exp(-0.1 * rng.random(n_events))}
    return replace(events, variations={n: r * events.event_weights for n, r in ratios.items()}), ratios


@pytest.mark.parametrize("nu", [-2.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0])
def test_columns_are_log_linear_between_and_beyond_one_sigma(nu):
    events, ratios = with_columns()
    shifted = shift_events(events, [COLUMNS], [nu], NO_CUTS)
    expected = ratios["up"] ** nu if nu >= 0 else ratios["down"] ** -nu
    np.testing.assert_allclose(shifted.weights, events.event_weights * expected, rtol=1e-13)
    assert shifted.yield_ratio == pytest.approx(shifted.weights.sum() / events.event_weights.sum())
    assert np.array_equal(shifted.events.particles, events.particles)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_ratio_that_is_not_positive_is_refused_with_its_event(bad):
    events, _ = with_columns()
    events.variations["up"][17] = bad * events.event_weights[17]
    with pytest.raises(BadEventError, match=r"'pileup': the weight 'up' .*must be positive .*in event 17$"):
        COLUMNS.shift(events, 0.5)
    COLUMNS.shift(events, -0.5)


def test_an_event_of_no_weight_keeps_it():
    events, _ = with_columns()
    events.event_weights[17] = 0.0
    assert COLUMNS.shift(events, 1.0).weights[17] == 1.0
    assert shift_events(events, [COLUMNS], [1.0], NO_CUTS).weights[17] == 0.0


def test_columns_that_were_not_read_are_named():
    with pytest.raises(CovadError, match="'pileup' needs the weights 'down' of the events"):
        COLUMNS.shift(weighted_events(5, seed=1), -1.0)


def test_a_users_ratio_is_asked_for_at_one_sigma_and_interpolated():
    events, amounts = random_events(50, seed=2), []

    def ratio(given, amount):
        amounts.append(amount)
        return np.exp(amount * given.particles[:, 0, 0] / 100)

    found = UserWeights("own", 0.5, ratio).shift(events, -2.0)
    np.testing.assert_allclose(found.weights, np.exp(-0.5 * events.particles[:, 0, 0] / 100) ** 2)
    assert amounts == [-0.5]
    assert found.events is events


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda e, _: np.where(np.arange(len(e)) == 7, np.nan, 1.0), "ratio is nan at .* in event 7$"),
        (lambda e, _: np.where(np.arange(len(e)) == 7, 0.0, 1.0), "ratio is 0 at .* in event 7$"),
        (lambda e, _: np.ones(len(e) - 1), r"one weight ratio for each of 20 events, not \(19,\)"),
        (lambda e, _: 1.1, "must return a numpy array of weight ratios, not float"),
        (lambda e, _: np.array(["a"] * len(e)), "not an array of <U1"),
        (lambda e, _: e, "not Events"),
        (lambda e, _: 1 / 0, "ended in ZeroDivisionError"),
    ],
)
def test_what_a_users_ratio_may_not_be_is_one_sentence(function, message):
    with pytest.raises(CovadError, match=f"systematic 'own'.*{message}"):
        UserWeights("own", 1.0, function).shift(random_events(20, seed=1), 1.0)


@pytest.mark.parametrize("nu", [-1.0, 0.0, 2.0])
def test_a_normalisation_is_log_normal_for_its_processes(nu):
    events = random_events(500, seed=4)
    shifted = shift_events(events, [Restricted(ProcessNormalisation("rate", 0.3), ("qcd",))], [nu], NO_CUTS)
    share = (events.process == 1).mean()
    assert shifted.yield_ratio == pytest.approx(1 - share + share * 1.3**nu)


def test_weights_multiply_and_need_no_other_selection():
    events, ratios = with_columns()
    shifting = Shifting(events, (ProcessNormalisation("lumi", 0.1), COLUMNS, JetEnergyScale()), NO_CUTS)
    nominal, weighed, moved = (shifting.at(nu) for nu in ((0, 0, 0), (1, 1, 0), (1, 1, 1)))
    np.testing.assert_allclose(weighed.weights, 1.1 * ratios["up"] * events.event_weights, rtol=1e-13)
    assert weighed.events is nominal.events
    assert not np.array_equal(moved.events.particles, nominal.events.particles)
    np.testing.assert_array_equal(moved.weights, weighed.weights)
