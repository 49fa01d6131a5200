from dataclasses import replace

import numpy as np
import pytest
from samples import leading_lepton, weighted_events

from covad.events.inspection import CollectionSummary, VariedSummary, summarise
from covad.events.layout import UNLABELLED, Events
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyResolution, JetEnergyScale, LeptonEnergyScale, shift_events


def test_chunks_add_up_to_the_whole(events: Events) -> None:
    whole = summarise([events], [JetEnergyScale()])
    pieces = summarise([events[:700], events[700:701], events[701:]], [JetEnergyScale()])
    assert pieces.n_events == whole.n_events == len(events)
    assert pieces.processes == whole.processes == events.process_counts()
    for a, b in zip(pieces.collections, whole.collections, strict=True):
        assert (a.n_objects, a.low, a.high) == (b.n_objects, b.low, b.high)
        assert a.mean_scale == pytest.approx(b.mean_scale)


def test_numbers_are_those_of_the_events(events: Events) -> None:
    jets = summarise([events]).collections[-1]
    present = events.objects("jet")[events.present("jet")]
    assert jets.mean_number == pytest.approx(len(present) / len(events))
    assert jets.mean_scale == pytest.approx(present[:, 0].mean(dtype=np.float64))
    assert jets.low["eta"] == present[:, 1].min()
    assert jets.mean_lead == pytest.approx(events.objects("jet")[events.present("jet")[:, 0], 0, 0].mean())


def test_more_jets_pass_at_a_higher_scale(events: Events) -> None:
    shifts = summarise([events], [JetEnergyScale()]).shifts
    assert [s.nu for s in shifts] == [-2, -1, 0, 1, 2]
    numbers = [s.collection.mean_number for s in shifts]
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1]
    assert all(s.yield_ratio == pytest.approx(1) for s in shifts)


def test_yield_ratio_over_chunks_is_that_of_the_sample(events: Events) -> None:
    selection, scale = Selection(trigger_minimum=45.0), LeptonEnergyScale(sigma=0.05)
    summary = summarise([events[:500], events[500:]], [scale], nu=(1.0,), selection=selection)
    whole = shift_events(events, [scale], [1.0], selection)
    assert summary.shifts[0].yield_ratio == pytest.approx(whole.yield_ratio)


def test_selected_events_are_those_that_a_run_has_at_nu_zero(events: Events) -> None:
    """The nominal sample is already smeared by the resolution: cuts on jets see smeared ones."""
    systematics = [JetEnergyScale(), JetEnergyResolution()]
    selection = Selection(trigger=("jet",), trigger_minimum=40.0)
    summary = summarise([events[:500], events[500:]], systematics, nu=(), selection=selection)
    assert summary.n_selected == len(shift_events(events, systematics, [0.0, 0.0], selection).events)
    assert summary.n_selected != len(selection.apply(events)[0])


def test_pieces_in_which_nothing_passes_count_as_well(events: Events) -> None:
    """A piece may have no event above the trigger, at nu = 0 or only when shifted."""
    lead = leading_lepton(events)
    order = np.argsort(lead)
    below, just_above, above = events[order[:5]], events[order[5:6]], events[order[6:]]
    selection = Selection(trigger_minimum=float(lead[order[5]]))
    pieces, whole = (
        summarise(chunks, [LeptonEnergyScale()], nu=(-1.0,), selection=selection).shifts[0]
        for chunks in ([below, just_above, above], [events])
    )
    assert pieces.yield_ratio == whole.yield_ratio < 1
    nothing = summarise([below], [LeptonEnergyScale()], nu=(-1.0,), selection=selection).shifts[0]
    assert (nothing.n_nominal, nothing.collection.mean_number) == (0, 0)


def test_weights_are_summed_by_process() -> None:
    events = weighted_events(2000, seed=8)
    labels = events.process.copy()
    labels[:100] = UNLABELLED
    events = replace(events, process=labels)
    summary = summarise([events[:700], events[700:]], selection=Selection(trigger_minimum=45.0))
    names = np.array(["w", "qcd", "unlabelled"])[labels]
    assert set(summary.weights) == set(names)
    for name, found in summary.weights.items():
        w = events.event_weights[names == name]
        assert (found.n_events, found.n_negative) == (len(w), (w < 0).sum())
        assert found.total == pytest.approx(w.sum())
        assert found.negative_share == pytest.approx((w < 0).mean())
        assert found.effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert summary.all_weights.n_events == 2000
    assert summary.all_weights.total == pytest.approx(events.event_weights.sum())
    passing = Selection(trigger_minimum=45.0).triggers(events)
    assert summary.selected_yield == pytest.approx(events.event_weights[passing].sum())
    assert summary.variations == pytest.approx({n: w.sum() for n, w in events.variations.items()})


def test_events_without_weights_have_no_sums_of_them(events: Events) -> None:
    summary = summarise([events])
    assert (summary.weights, summary.variations) == ({}, {})
    assert summary.selected_yield == summary.n_selected


def test_varied_objects_are_selected_by_themselves(events: Events) -> None:
    selection = Selection(trigger_minimum=45.0)
    lifted = events.with_particles(events.particles * np.float32([1.2, 1.0, 1.0]))
    varied = VariedSummary("up", CollectionSummary("electron", ("pt", "eta", "phi")))
    for chunk in (lifted[:700], lifted[700:]):
        varied.add(chunk, [], selection)
    selected, _ = selection.apply(lifted)
    assert varied.selected_yield == len(selected) > summarise([events], selection=selection).n_selected
    assert varied.collection.n_objects == selected.present("electron").sum()
