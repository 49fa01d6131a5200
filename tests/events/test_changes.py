"""Changed events against what a change says, event by event."""

import numpy as np
import pytest
from samples import random_events

from covad.errors import UnknownNameError
from covad.events.changes import CHANGES, change_events, changes_there
from covad.events.layout import Collection, EventLayout, Events

Vector = tuple[float, float]
Change = tuple[Events, Events, Events]


def changed(name: str, n_events: int = 300) -> Change:
    """Return events, as many others, and the changed ones: every event of the sample changes."""
    events, others = random_events(n_events, 1), random_events(n_events, 2)
    rng = np.random.default_rng(3)
    particles = CHANGES[name](events.layout, events.particles, others.particles, rng)
    return events, others, Events.unlabelled(events.layout, particles)


def momenta(events: Events, name: str, event: int) -> list[float]:
    """Return the momenta of the objects of one event."""
    return [float(pt) for pt in events.objects(name)[event, :, 0] if pt > 0]


def vector(event_object: np.ndarray) -> Vector:
    pt, _, phi = (float(number) for number in event_object)
    return pt * np.cos(phi), pt * np.sin(phi)


@pytest.mark.parametrize("name", list(CHANGES))
def test_changed_events_are_tidy_and_the_others_stay(name: str) -> None:
    """Nothing lies in an empty slot, objects are sorted, and neither input is touched."""
    events, others = random_events(300, 1), random_events(300, 2)
    before = events.particles.copy(), others.particles.copy()
    rng = np.random.default_rng(3)
    particles = CHANGES[name](events.layout, events.particles, others.particles, rng)
    assert particles.dtype == np.float32
    assert events.layout.tidy(particles)[1] == 0
    assert np.isfinite(particles).all()
    np.testing.assert_array_equal(events.particles, before[0])
    np.testing.assert_array_equal(others.particles, before[1])


@pytest.mark.parametrize("name", list(CHANGES))
def test_only_events_that_changed_are_returned(name: str) -> None:
    events, others = random_events(300, 1), random_events(300, 2)
    arguments = events.layout, events.particles, others.particles
    all_of_them = CHANGES[name](*arguments, np.random.default_rng(3))
    found = change_events(name, *arguments, np.random.default_rng(3))
    differs = [bool((a != b).any()) for a, b in zip(all_of_them, events.particles, strict=True)]
    np.testing.assert_array_equal(found, all_of_them[differs])
    assert 0 < len(found) <= 300
    no_jets = events.particles.copy()
    no_jets[:, events.layout.slots("jet")] = 0
    if name in ("invisible_jet", "jet_as_lepton"):
        again = change_events(name, events.layout, no_jets, others.particles, np.random.default_rng(3))
        assert len(again) == 0


def test_all_momenta_grow_by_one_factor() -> None:
    events, _, harder = changed("harder")
    for event in range(300):
        there = events.particles[event, :, 0] > 0
        factors = harder.particles[event, there, 0] / events.particles[event, there, 0]
        assert np.ptp(factors) < 1e-5
        assert 1.3 <= factors[0] <= 2.0
    np.testing.assert_array_equal(harder.particles[..., 1:], events.particles[..., 1:])


def test_overlaid_events_have_the_objects_of_both() -> None:
    events, others, both = changed("overlaid")
    for event in range(300):
        for name, slots in (("electron", 4), ("muon", 4), ("jet", 10)):
            wanted = sorted(momenta(events, name, event) + momenta(others, name, event), reverse=True)
            assert momenta(both, name, event) == wanted[:slots]
        x, y = np.add(vector(events.objects("met")[event, 0]), vector(others.objects("met")[event, 0]))
        assert vector(both.objects("met")[event, 0]) == pytest.approx((x, y), rel=1e-4, abs=1e-3)


def test_one_lepton_more_is_the_leading_one_of_another_event() -> None:
    events, others, more = changed("more_leptons")
    for event in range(300):
        theirs = {name: momenta(others, name, event) for name in ("electron", "muon")}
        kind = max(theirs, key=lambda name: max(theirs[name], default=0.0))
        for name in theirs:
            wanted = momenta(events, name, event) + (theirs[name][:1] if name == kind else [])
            assert momenta(more, name, event) == sorted(wanted, reverse=True)[:4]
    np.testing.assert_array_equal(more.objects("jet"), events.objects("jet"))


def test_more_jets_are_the_leading_ones_of_two_other_events() -> None:
    events, others, more = changed("more_jets")
    for event in range(300):
        theirs = momenta(others, "jet", event)[:2] + momenta(others, "jet", event - 1)[:2]
        wanted = sorted(momenta(events, "jet", event) + theirs, reverse=True)
        assert momenta(more, "jet", event) == wanted[:10]


@pytest.mark.parametrize("name", ["invisible_jet", "jet_as_lepton"])
def test_the_leading_jet_becomes_something_else(name: str) -> None:
    events, _, moved = changed(name)
    leptons = {"electron": 0, "muon": 0}
    for event in range(300):
        jets = momenta(events, "jet", event)
        assert momenta(moved, "jet", event) == jets[1:]
        if not jets:
            np.testing.assert_array_equal(moved.particles[event], events.particles[event])
        elif name == "invisible_jet":
            x, y = np.add(vector(events.objects("met")[event, 0]), vector(events.objects("jet")[event, 0]))
            assert vector(moved.objects("met")[event, 0]) == pytest.approx((x, y), rel=1e-4, abs=1e-3)
        else:
            for kind in leptons:
                wanted = sorted([*momenta(events, kind, event), jets[0]], reverse=True)[:4]
                if momenta(moved, kind, event) == wanted and wanted != momenta(events, kind, event):
                    leptons[kind] += 1
    if name == "jet_as_lepton":
        assert min(leptons.values()) > 50


def test_missing_momentum_turns_or_grows() -> None:
    events, _, turned = changed("turned_met", 2000)
    assert (turned.objects("met")[..., 0] == events.objects("met")[..., 0]).all()
    phi = turned.objects("met")[:, 0, 2]
    # 2000 azimuths in four quadrants: chi2 of 3 degrees of freedom beyond 30 has a chance of 1e-6
    counts = np.histogram(phi, bins=4, range=(-np.pi, np.pi))[0]
    assert np.square(counts - 500).sum() / 500 < 30
    _, _, larger = changed("larger_met", 2000)
    factors = larger.objects("met")[:, 0, 0] / events.objects("met")[:, 0, 0]
    assert 1.5 <= factors.min() < 1.6
    assert 2.9 < factors.max() <= 3.0
    np.testing.assert_array_equal(larger.particles[:, 1:], events.particles[:, 1:])


def test_an_event_without_a_jet_keeps_its_missing_momentum_to_the_bit() -> None:
    """Whatever the missing momentum is: adding nothing must not count as a change."""
    events = random_events(2000, 1)
    rng = np.random.default_rng(2)
    events.particles[:, 0, 0] = rng.exponential(30.0, 2000)
    events.particles[:, 0, 2] = rng.uniform(-np.pi, np.pi, 2000)
    has_jet = events.present("jet").any(axis=1)
    found = change_events("invisible_jet", events.layout, events.particles, events.particles, rng)
    assert 0 < has_jet.sum() < 2000
    assert len(found) == has_jet.sum()


def test_missing_momentum_that_is_no_single_vector_is_not_added_up() -> None:
    jets = Collection("jet", 3)
    without = EventLayout((Collection("met", 1, ("pt",)), jets))
    assert changes_there(without) == ("harder", "more_jets", "larger_met")
    flat = EventLayout((Collection("met", 1, ("pt", "phi")), Collection("jet", 3, ("pt", "eta"))))
    assert "invisible_jet" not in changes_there(flat)
    two = EventLayout((Collection("met", 2, ("pt", "phi")), jets))
    assert changes_there(two) == ("harder", "more_jets", "larger_met")
    other = EventLayout((Collection("PuppiMET", 1, ("pt", "phi")), jets))
    assert changes_there(other) == ("harder", "more_jets")
    with pytest.raises(UnknownNameError, match="'PuppiMET' is missing momentum, which has to be called met"):
        changes_there(other, ["overlaid"])
    with pytest.raises(UnknownNameError, match="'turned_met' cannot be had: the collection 'met' has no phi"):
        changes_there(without, ["turned_met"])


def test_events_without_missing_momentum_have_none_to_turn() -> None:
    events = random_events(50, 1)
    events.particles[:, 0] = 0
    for name in ("turned_met", "larger_met"):
        found = change_events(
            name, events.layout, events.particles, events.particles, np.random.default_rng(1)
        )
        assert len(found) == 0


def test_a_layout_has_the_changes_for_which_it_has_objects() -> None:
    assert changes_there(random_events(1, 1).layout) == tuple(CHANGES)
    photons = EventLayout((Collection("photon", 2),))
    assert changes_there(photons) == ("harder", "overlaid")
    assert changes_there(photons, ["overlaid"]) == ("overlaid",)
    events = random_events(50, 1, photons)
    both = CHANGES["overlaid"](photons, events.particles, events.particles, np.random.default_rng(1))
    np.testing.assert_array_equal(both[:, 0, 0], events.particles[:, 0, 0])
    with pytest.raises(UnknownNameError, match=r"'more_jets' cannot be had: .* no collection 'jet'"):
        changes_there(photons, ["harder", "more_jets"])
    with pytest.raises(UnknownNameError, match=r"no change 'softer' \(there are harder, overlaid, "):
        changes_there(photons, ["softer"])
    with pytest.raises(UnknownNameError, match="'harder' stands twice"):
        changes_there(photons, ["harder", "harder"])


def test_leptons_without_all_features_can_take_the_place_of_jets() -> None:
    """A collection that lacks a feature gets objects without it."""
    layout = EventLayout(
        (Collection("muon", 2, ("pt", "eta", "phi")), Collection("jet", 3, ("pt", "eta", "phi", "mass")))
    )
    events = random_events(100, 1, layout)
    particles = CHANGES["jet_as_lepton"](layout, events.particles, events.particles, np.random.default_rng(1))
    assert layout.tidy(particles)[1] == 0
    assert (particles[:, :2, 0] > 0).sum() > (events.particles[:, :2, 0] > 0).sum()
