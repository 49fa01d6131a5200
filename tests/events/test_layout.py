"""The event layout: descriptions, tidying, checks, joining."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import random_events, weighted_events

from covad.errors import CovadError, EventContentError, LayoutError, UnknownNameError
from covad.events.layout import UNLABELLED, Collection, EventLayout, Events, concatenate
from covad.events.processes import ADC2021_LAYOUT

WORDS = st.text("abcdefgh", min_size=1, max_size=4)


@st.composite
def layouts(draw: st.DrawFn) -> EventLayout:
    """Any layout whose collections share their first feature."""
    names = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    others = st.lists(WORDS, max_size=3, unique=True)
    return EventLayout(
        tuple(
            Collection(name, draw(st.integers(1, 4)), ("scale", *(f"f_{f}" for f in draw(others))))
            for name in names
        )
    )


@st.composite
def messy_events(draw: st.DrawFn) -> tuple[EventLayout, np.ndarray]:
    """Finite numbers with scale >= 0 in any order, and anything in the empty slots."""
    layout = draw(layouts())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    particles = rng.normal(size=(draw(st.integers(0, 6)), *layout.shape)).astype(np.float32)
    particles[..., 0] = np.abs(particles[..., 0]) * rng.integers(0, 2, particles.shape[:2])
    return layout, particles


def test_the_paper_has_57_numbers_in_19_slots() -> None:
    assert ADC2021_LAYOUT.shape == (19, 3)
    assert ADC2021_LAYOUT.n_inputs == 57
    assert [ADC2021_LAYOUT.slots(c.name) for c in ADC2021_LAYOUT.collections] == [
        slice(0, 1),
        slice(1, 5),
        slice(5, 9),
        slice(9, 19),
    ]


@given(layouts())
@settings(deadline=None)
def test_description_survives_json(layout: EventLayout) -> None:
    assert EventLayout.from_description(json.loads(json.dumps(layout.describe()))) == layout


@given(layouts())
@settings(deadline=None)
def test_slots_and_offered_numbers_cover_the_layout_once(layout: EventLayout) -> None:
    covered = np.zeros(layout.n_slots, dtype=int)
    for c in layout.collections:
        covered[layout.slots(c.name)] += 1
    assert (covered == 1).all()
    assert layout.n_inputs == sum(c.slots * len(c.features) for c in layout.collections)


@given(messy_events())
@settings(deadline=None)
def test_tidy_sorts_blanks_and_is_idempotent(case: tuple[EventLayout, np.ndarray]) -> None:
    layout, messy = case
    original = messy.copy()
    tidy, mended = layout.tidy(messy)
    assert (messy == original).all(), "the input must not change"
    assert mended == int((tidy != messy).any(axis=(1, 2)).sum())
    again, nothing = layout.tidy(tidy)
    assert nothing == 0
    assert again is tidy
    for c in layout.collections:
        part = tidy[:, layout.slots(c.name)]
        assert (np.diff(part[..., 0], axis=1) <= 0).all()
        assert (part[part[..., 0] == 0] == 0).all()
    assert (tidy[:, ~layout.offered] == 0).all()


@given(messy_events())
@settings(deadline=None)
def test_tidy_keeps_every_object(case: tuple[EventLayout, np.ndarray]) -> None:
    layout, messy = case
    tidy, _ = layout.tidy(messy)
    for event, mended in zip(messy * layout.offered, tidy, strict=True):
        for c in layout.collections:
            before, after = event[layout.slots(c.name)], mended[layout.slots(c.name)]
            assert sorted(map(tuple, before[before[:, 0] > 0])) == sorted(map(tuple, after[after[:, 0] > 0]))


def test_tidy_restores_shuffled_objects(events: Events) -> None:
    rng = np.random.default_rng(5)
    shuffled = events.particles.copy()
    jets = events.layout.slots("jet")
    for event in shuffled:
        event[jets] = rng.permutation(event[jets])
    tidy, mended = events.layout.tidy(shuffled)
    np.testing.assert_array_equal(tidy, events.particles)
    assert 0 < mended <= len(events)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_check_names_file_collection_feature_and_event(events: Events, number: float) -> None:
    events.particles[17, 9, 1] = number
    with pytest.raises(EventContentError, match=r"^some\.h5: eta of jet is not finite in event 117$"):
        events.layout.check(events.particles, "some.h5", first_event=100)


def test_check_refuses_negative_scale_only(events: Events) -> None:
    events.layout.check(events.particles, "some.h5")  # eta and phi may be negative
    events.particles[3, 5, 0] = -1
    with pytest.raises(EventContentError, match="pt of muon is negative in event 3"):
        events.layout.check(events.particles, "some.h5")


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"name": "jet"}, "list of collections"),
        (["jet"], "is not a mapping"),
        ([{"name": "jet", "slots": 2}], "lacks features"),
        ([{"name": "jet", "slots": "two", "features": ["pt"]}], "whole number of slots"),
        ([{"name": "jet", "slots": True, "features": ["pt"]}], "whole number of slots"),
        ([{"name": "jet", "slots": 0, "features": ["pt"]}], "at least one slot"),
        ([{"name": "jet", "slots": 2, "features": "pt"}], "list of features"),
        ([{"name": "jet", "slots": 2, "features": []}], "no features"),
        ([{"name": "jet", "slots": 2, "features": ["pt", "pt"]}], "a feature twice"),
        ([{"name": "", "slots": 2, "features": ["pt"]}], "has no name"),
        ([], "at least one collection"),
        ([{"name": "jet", "slots": 2, "features": ["pt"]}] * 2, "a collection twice"),
        (
            [
                {"name": "jet", "slots": 2, "features": ["pt"]},
                {"name": "muon", "slots": 1, "features": ["e"]},
            ],
            "the same first feature",
        ),
    ],
)
def test_bad_descriptions_are_refused(description: object, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        EventLayout.from_description(description)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"no collection 'tau' \(it has met, electron, muon, jet\)"):
        ADC2021_LAYOUT.slots("tau")
    with pytest.raises(UnknownNameError, match=r"no feature 'mass' \(it has pt, eta, phi\)"):
        ADC2021_LAYOUT.column("mass")


@pytest.mark.parametrize("label", [-2, 2, 300])
def test_a_label_without_a_name_is_refused(label: int) -> None:
    with pytest.raises(LayoutError, match=f"process labels run from .*{label}.* 2 process names"):
        Events(ADC2021_LAYOUT, np.zeros((1, 19, 3), np.float32), np.array([label], np.int16), ("w", "z"))


def test_events_refuse_wrong_shapes(events: Events) -> None:
    with pytest.raises(LayoutError, match="float32 array of shape"):
        events.with_particles(events.particles.astype(np.float64))  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="float32 array of shape"):
        events.with_particles(events.particles[:, :18])
    with pytest.raises(LayoutError, match="as many process labels"):
        events.with_particles(events.particles[:5])


@given(st.lists(st.permutations(["w", "z", "qcd"]), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_joined_events_keep_their_process_names(numberings: list[list[str]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = []
    for names in numberings:
        labels = rng.integers(UNLABELLED, 3, 5).astype(np.int16)
        parts.append(Events(ADC2021_LAYOUT, np.zeros((5, 19, 3), np.float32), labels, tuple(names)))
    joined = concatenate(parts)
    by_name = [(*p.process_names, "unlabelled")[label] for p in parts for label in p.process]
    assert [(*joined.process_names, "unlabelled")[label] for label in joined.process] == by_name


def test_joining_refuses_nothing_and_other_layouts(events: Events) -> None:
    with pytest.raises(LayoutError, match="nothing to concatenate"):
        concatenate([])
    other = random_events(3, seed=2, layout=EventLayout((Collection("jet", 2),)))
    with pytest.raises(LayoutError, match="different layouts"):
        concatenate([events, other])


def test_labels_among_names_that_lack_ours(events: Events) -> None:
    with pytest.raises(UnknownNameError, match="qcd is not among w, z"):
        events.labels_among(("w", "z"))


def test_process_counts_tell_unlabelled_events_apart(events: Events) -> None:
    labels = events.process.copy()
    labels[:7] = UNLABELLED
    counts = events.with_particles(events.particles, labels).process_counts()
    assert counts["unlabelled"] == 7
    assert sum(counts.values()) == len(events)


def test_chosen_events_keep_their_weights() -> None:
    events = weighted_events(50, seed=3)
    rows = np.array([7, 3, 3])
    for chosen in (events[rows], events.with_particles(events.particles + np.float32(1.0))[rows]):
        assert chosen.weights is not None
        np.testing.assert_array_equal(chosen.weights, events.event_weights[rows])
        assert list(chosen.variations) == ["scaleUp", "pdf_1"]
        for name, weights in events.variations.items():
            np.testing.assert_array_equal(chosen.variations[name], weights[rows])


def test_events_without_weights_count_once(events: Events) -> None:
    assert events.weights is None
    assert events[:3].weights is None
    assert concatenate([events[:3], events[3:]]).weights is None
    np.testing.assert_array_equal(events.event_weights, np.ones(len(events)))


def test_joined_events_keep_their_weights() -> None:
    events = weighted_events(50, seed=3)
    joined = concatenate([events[:20], events[20:]])
    np.testing.assert_array_equal(joined.event_weights, events.event_weights)
    np.testing.assert_array_equal(joined.variations["pdf_1"], events.variations["pdf_1"])
    with pytest.raises(LayoutError, match="different variations of their weights"):
        concatenate([events, replace(events, variations={})])
    plain = replace(events, weights=None, variations={})
    mixed = concatenate([plain, replace(events, variations={})])
    np.testing.assert_array_equal(mixed.event_weights, [*np.ones(50), *events.event_weights])


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones(49), LayoutError, r"50 events need as many float64 numbers as {what}, not float64 \(49,\)"),
        (np.ones((50, 1)), LayoutError, r"float64 \(50, 1\)"),
        (np.ones(50, int), LayoutError, "not int64"),
        (np.ones(50, np.float32), LayoutError, "not float32"),
        (np.where(np.arange(50) == 7, np.nan, 1.0), EventContentError, "{what} is nan in event 7"),
        (np.where(np.arange(50) == 7, -np.inf, 1.0), EventContentError, "{what} is -inf in event 7"),
        (
            np.where(np.arange(50) == 7, 1e-200, 0.0),
            EventContentError,
            "{what} is 1e-200 in event 7, not 0 or",
        ),
        (
            np.where(np.arange(50) == 7, -1e101, 0.0),
            EventContentError,
            r"is -1e\+101 in event 7, not 0 or 1e-100",
        ),
    ],
)
def test_weights_that_cannot_be_are_refused(
    weights: np.ndarray, error: type[CovadError], message: str
) -> None:
    events = weighted_events(50, seed=3)
    with pytest.raises(error, match=message.format(what="the weight")):
        replace(events, weights=weights)
    with pytest.raises(error, match=message.format(what="the weight 'up'")):
        replace(events, variations={"up": weights})


def test_varied_objects_go_with_their_events() -> None:
    events = random_events(30, seed=1)
    varied = replace(events, varied={"up": events.particles * np.float32(2)})
    moved = varied.with_particles(events.particles * np.float32(3))
    again = moved.with_particles(events.particles * np.float32(4))
    np.testing.assert_array_equal(again.unmoved, events.particles)
    assert events.with_particles(moved.particles).origin is None
    rows = np.array([3, 1])
    np.testing.assert_array_equal(again[rows].unmoved, events.particles[rows])
    np.testing.assert_array_equal(again[rows].varied["up"], varied.varied["up"][rows])
    joined = concatenate([varied, again])
    np.testing.assert_array_equal(joined.unmoved, np.concatenate([events.particles] * 2))
    np.testing.assert_array_equal(joined.varied["up"], np.concatenate([varied.varied["up"]] * 2))
    with pytest.raises(LayoutError, match="different varied objects cannot be joined"):
        concatenate([events, varied])
    with pytest.raises(LayoutError, match="varied objects 'up' need a float32 array of shape"):
        replace(events, varied={"up": events.particles[:5]})
