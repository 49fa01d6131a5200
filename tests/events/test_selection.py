import numpy as np

from covad.events.layout import Collection, EventLayout, Events
from covad.events.selection import NO_CUTS, Selection


def test_soft_jets_are_removed_whole(events: Events) -> None:
    selected, rows = Selection().apply(events)
    jets = selected.objects("jet")
    assert ((jets[..., 0] == 0) | (jets[..., 0] >= 23)).all()
    assert (jets[jets[..., 0] == 0] == 0).all()
    before = events.objects("jet")[rows]
    assert np.array_equal(jets[jets[..., 0] > 0], before[before[..., 0] >= 23])


def test_input_is_left_alone(events: Events) -> None:
    before = events.particles.copy()
    Selection().apply(events)
    assert np.array_equal(events.particles, before)


def test_trigger_keeps_events_with_a_hard_lepton(events: Events) -> None:
    selection = Selection(trigger_minimum=60.0)
    selected, rows = selection.apply(events)
    lead = np.maximum(
        events.objects("electron")[..., 0].max(axis=1), events.objects("muon")[..., 0].max(axis=1)
    )
    assert np.array_equal(rows, np.flatnonzero(lead >= 60))
    assert 0 < len(selected) < len(events)
    assert np.array_equal(selected.process, events.process[rows])


def test_no_cuts_keep_every_object_of_every_event(events: Events) -> None:
    kept, rows = NO_CUTS.apply(events)
    assert np.array_equal(kept.particles, events.particles)
    assert np.array_equal(rows, np.arange(len(events)))


def test_another_layout_without_trigger() -> None:
    layout = EventLayout((Collection("photon", 2, ("e", "theta")),))
    particles = np.array([[[10, 1], [5, 2]], [[3, 1], [0, 0]]], dtype=np.float32)
    events = Events.unlabelled(layout, particles)
    selected, rows = Selection(object_minimum={"photon": 4.0}, trigger=()).apply(events)
    assert rows.tolist() == [0, 1]
    assert selected.particles[1].tolist() == [[0, 0], [0, 0]]
