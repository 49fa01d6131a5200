import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from samples import random_events, weighted_events

from covad.errors import CovadError, EventContentError
from covad.events.layout import Events
from covad.events.selection import NO_CUTS, Selection
from covad.events.systematics import (
    BadEventError,
    JetEnergyScale,
    LeptonEnergyScale,
    SelectionMarginError,
    Variation,
    shift_events,
    unchanged_partners,
)


def test_shifts_compose_in_order(events: Events) -> None:
    both = shift_events(events, [JetEnergyScale(), LeptonEnergyScale()], [1.0, -1.0])
    assert np.array_equal(
        both.events.objects("electron")[..., 0],
        events.objects("electron")[both.rows][..., 0] * np.float32(np.exp(-0.01)),
    )
    assert np.array_equal(
        both.events.objects("jet"),
        shift_events(events, [JetEnergyScale()], [1.0]).events.objects("jet")[both.rows],
    )


def test_yield_ratio_counts_events_that_cross_the_trigger(events: Events) -> None:
    selection = Selection(trigger_minimum=40.0)
    lead = np.maximum(
        events.objects("electron")[..., 0].max(axis=1), events.objects("muon")[..., 0].max(axis=1)
    )
    for nu in (-2.0, 2.0):
        shifted = shift_events(events, [LeptonEnergyScale(sigma=0.05)], [nu], selection)
        expected = (lead * np.float32(np.exp(0.05 * nu)) >= 40).sum() / (lead >= 40).sum()
        assert shifted.yield_ratio == pytest.approx(expected)
        assert (shifted.yield_ratio > 1) == (nu > 0)


def test_a_sample_without_margin_is_refused(events: Events) -> None:
    filtered = Events(
        events.layout, events.particles, events.process, events.process_names, {"lepton_filter": 23.0}
    )
    shift_events(filtered, [JetEnergyScale()], [2.0])
    shift_events(filtered, [LeptonEnergyScale()], [-1.0])
    with pytest.raises(SelectionMarginError, match=r"lepton filter below 22\.77 GeV"):
        shift_events(filtered, [LeptonEnergyScale()], [1.0])
    shift_events(filtered, [LeptonEnergyScale()], [1.0], Selection(trigger_minimum=25.0))


def test_weights_of_the_events_start_those_of_shifted_ones() -> None:
    events = weighted_events(2000, seed=6)
    selection = Selection(trigger_minimum=45.0)
    scale, factor = LeptonEnergyScale(sigma=0.05), 1.0 + 0.1 * np.arange(2000) / 2000

    @dataclass(frozen=True)
    class Reweighting:
        name: str = "reweighting"
        sigma: float = 1.0

        def shift(self, given: Events, nu: float) -> Variation:
            return Variation(given, factor**nu)

    shifted = shift_events(events, [scale, Reweighting()], [1.0, 1.0], selection)
    plain = shift_events(replace(events, weights=None), [scale, Reweighting()], [1.0, 1.0], selection)
    np.testing.assert_array_equal(shifted.rows, plain.rows)
    assert shifted.rows is not None
    np.testing.assert_array_equal(shifted.weights, (events.event_weights * factor)[shifted.rows])
    np.testing.assert_array_equal(plain.weights, factor[shifted.rows])
    passing = selection.triggers(events)
    assert shifted.nominal_yield == events.event_weights[passing].sum()
    assert plain.nominal_yield == passing.sum()
    assert (shifted.weights < 0).any()
    ratio = shifted.weights.sum() / events.event_weights[passing].sum()
    assert shifted.yield_ratio == pytest.approx(ratio)
    assert shifted.yield_ratio != pytest.approx(plain.yield_ratio, rel=1e-4)


def test_a_negative_yield_at_nominal_is_refused() -> None:
    events = weighted_events(50, seed=6)
    upside_down = replace(events, weights=-events.event_weights)
    with pytest.raises(EventContentError, match=r"at nu = 0 add up to -.*a negative yield has no density"):
        _ = shift_events(upside_down, [JetEnergyScale()], [1.0], NO_CUTS).yield_ratio


def test_a_bad_event_keeps_its_words_when_it_is_numbered_or_sent() -> None:
    found = BadEventError("pt of jet is negative in event", 3)
    assert str(found.numbered(np.array([10, 20, 30, 40]))) == "pt of jet is negative in event 40"
    assert str(pickle.loads(pickle.dumps(found))) == str(found) == "pt of jet is negative in event 3"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, np.nan, 1.0], "nan is not finite or negative in event 1"),
        ([1.0, 1.0, -0.5], "-0.5 is not finite or negative in event 2"),
        ([0.0, 0.0, 0.0], "all weights are zero"),
        ([1.0, 1.0], "3 events need as many weights"),
    ],
)
def test_weights_that_cannot_be_are_refused(events: Events, weights: list[float], message: str) -> None:
    with pytest.raises(EventContentError, match=message):
        Variation(events[:3], np.array(weights))


def test_a_lepton_filter_that_is_no_number_is_refused(events: Events) -> None:
    odd = Events(
        events.layout, events.particles, events.process, events.process_names, {"lepton_filter": "high"}
    )
    with pytest.raises(EventContentError, match="lepton_filter 'high', which is no number"):
        shift_events(odd, [JetEnergyScale()], [1.0])


def test_wrong_use_is_refused(events: Events) -> None:
    with pytest.raises(CovadError, match="as many values of nu"):
        shift_events(events, [JetEnergyScale()], [1.0, 2.0])
    with pytest.raises(EventContentError, match="no event passes"):
        _ = shift_events(events, [JetEnergyScale()], [1.0], Selection(trigger_minimum=1e6)).yield_ratio


SELECTION = Selection(trigger_minimum=40.0)


@pytest.mark.parametrize(("nu", "scale"), [(1.0, JetEnergyScale()), (-1.0, LeptonEnergyScale(sigma=0.05))])
def test_partners_are_the_same_event_and_nothing_else(nu, scale):
    events = random_events(400, seed=2)
    nominal, shifted = (shift_events(events, [scale], [value], SELECTION) for value in (0.0, nu))
    partner = unchanged_partners(nominal, shifted)
    where = {int(row): number for number, row in enumerate(nominal.rows)}
    for number, row in enumerate(shifted.rows):
        same = int(row) in where and np.array_equal(
            nominal.events.particles[where[int(row)]], shifted.events.particles[number]
        )
        assert partner[number] == (where[int(row)] if same else -1)
    assert (partner >= 0).sum() > 0 or isinstance(scale, LeptonEnergyScale)


def test_no_shift_changes_nothing():
    nominal = shift_events(random_events(50, seed=2), [JetEnergyScale()], [0.0], SELECTION)
    assert np.array_equal(unchanged_partners(nominal, nominal), np.arange(len(nominal.events)))
