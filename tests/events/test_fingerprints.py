"""Fingerprints of events: what counts as the same event, and how many are alike."""

from dataclasses import replace

import numpy as np
import pytest
from event_files import public_record, write_events, write_public
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from samples import random_events

from covad.errors import FileFormatError
from covad.events.files import FileSet, open_events
from covad.events.fingerprints import (
    EMPTY,
    beyond_chance,
    event_fingerprints,
    fingerprints,
    repeats,
    row_fingerprints,
    shared,
    twinned,
)
from covad.events.layout import LARGEST_WEIGHT, SMALLEST_WEIGHT, Events
from covad.events.processes import ADC2021_LAYOUT
from covad.events.selection import NO_CUTS, Selection


def prints(*values):
    return np.array(values, dtype=np.uint64)


def test_fingerprints_of_different_events_differ_however_coarse_they_are():
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 3, (50_000, 19, 3)).astype(np.float32)
    distinct = len(np.unique(coarse.reshape(len(coarse), -1), axis=0))
    assert len(np.unique(row_fingerprints(Events.unlabelled(random_events(1, 1).layout, coarse)))) == distinct


@given(st.integers(0, 56), st.integers(0, 31))
@settings(max_examples=200, deadline=None)
def test_any_flipped_bit_changes_the_fingerprint(number, bit):
    events = random_events(1, seed=4)
    flipped = events.particles.copy()
    words = flipped.reshape(1, -1).view(np.uint32)
    words[0, number] ^= np.uint32(1 << bit)
    assume(np.isfinite(flipped).all())  # others are refused when they are read
    both = [row_fingerprints(events.with_particles(x))[0] for x in (events.particles, flipped)]
    # the sign of zero is no content
    assert (both[0] == both[1]) == np.array_equal(events.particles, flipped)


def test_a_fingerprint_does_not_depend_on_neighbours_or_on_the_order(events):
    found, order = row_fingerprints(events), np.random.default_rng(0).permutation(len(events))
    assert np.array_equal(row_fingerprints(events[order]), found[order])
    assert np.array_equal(row_fingerprints(events[7:9]), found[7:9])


@given(st.floats(-1e90, 1e90), st.integers(0, 63))
@settings(max_examples=200, deadline=None)
def test_another_weight_is_another_row_but_the_same_event(weight, bit):
    flipped = np.array([weight]).view(np.uint64) ^ np.uint64(1 << bit)
    for size in (abs(weight), abs(flipped.view(np.float64)[0])):
        assume(size == 0.0 or SMALLEST_WEIGHT <= size <= LARGEST_WEIGHT)
    events = replace(random_events(1, seed=4), weights=np.array([weight]))
    both = [fingerprints(x, Selection())[0] for x in (events, replace(events, weights=flipped.view(float)))]
    assert both[0]["event"] == both[1]["event"]
    # the sign of zero is no content
    assert (both[0]["row"] == both[1]["row"]) == (weight == flipped.view(float)[0])


def test_an_event_of_weight_one_is_one_without_a_weight(events):
    ones = replace(events, weights=np.ones(len(events)))
    assert np.array_equal(row_fingerprints(ones), row_fingerprints(events))


def test_fingerprints_of_unweighted_rows_stay_what_they_were():
    """Runs keep them: other bits would refuse all their files."""
    particles = np.arange(114, dtype=np.float32).reshape(2, 19, 3)
    events = Events(ADC2021_LAYOUT, particles, np.array([0, -1], dtype=np.int16), ("w",))
    found = fingerprints(events, NO_CUTS)
    assert found["row"].tolist() == [6093100272894793557, 4801344031561273518]
    assert found["event"].tolist() == [14275171836418297014, 14651975907680680519]


def test_another_process_is_another_row_but_the_same_event(events):
    other = events.with_particles(events.particles, 1 - events.process)
    renamed = Events(events.layout, events.particles, events.process, ("w", "z"))
    found, labelled, named = (fingerprints(x, Selection()) for x in (events, other, renamed))
    assert (found["row"] != labelled["row"]).all()
    assert np.array_equal(found["row"] != named["row"], events.process == 1)
    assert np.array_equal(found["event"], labelled["event"])


def test_an_event_is_the_same_after_the_cuts(events):
    selection = Selection(object_minimum={"jet": 23.0, "muon": 10.0})
    cut, rows = selection.apply(events)
    assert not np.array_equal(cut.particles, events.particles[rows])
    before, after = (fingerprints(x, selection)["event"] for x in (events, cut))
    assert np.array_equal(before[rows], after)


def test_the_file_format_does_not_matter(events, tmp_path):
    ours = write_events(tmp_path / "ours.h5", events)
    public = write_public(tmp_path / "public.h5", public_record(events), events, compression="lzf")
    both = []
    for path in (ours, public):
        with open_events(path) as source:
            both.append(fingerprints(source.read(), Selection())["event"])
    assert np.array_equal(*both)


def test_events_without_objects_are_no_copies_of_each_other(events):
    nothing = event_fingerprints(np.zeros_like(events.particles[:5]))
    assert (nothing == EMPTY).all()
    assert repeats(nothing).n_repeated == 0
    assert not shared(nothing, nothing).any()
    assert not twinned(nothing).any()


def test_repeated_shared_and_twinned_events_are_counted():
    found = prints(5, 7, 5, 9, 5, 7)
    assert (repeats(found).n_repeated, repeats(found).n_events, repeats(found).share) == (3, 6, 0.5)
    assert twinned(found).tolist() == [True, True, True, False, True, True]
    assert shared(found, prints(9, 1, 5)).tolist() == [True, False, True, True, True, False]
    assert shared(prints(9, 1), found).tolist() == [True, False]
    assert not shared(found, prints()).any()
    assert repeats(prints()).share == 0.0


@pytest.mark.parametrize(
    ("found", "by_chance", "beyond"),
    [(1, 0.0, True), (0, 0.0, False), (10, 10.0, False), (40, 10.0, False), (43, 10.0, True)],
)
def test_chance_makes_some_events_alike(found, by_chance, beyond):
    assert beyond_chance(found, by_chance) == beyond


def test_rows_that_have_changed_are_named_with_their_file(events, tmp_path):
    halves = events[:1000], events[1000:]
    paths = [write_events(tmp_path / f"{n}.h5", half) for n, half in enumerate(halves)]
    known = row_fingerprints(events)
    with FileSet(paths, known) as files:
        assert len(files.read(np.arange(len(files)))) == 2000
    swapped = halves[1].particles.copy()
    swapped[[4, 5]] = swapped[[5, 4]]
    write_events(paths[1], halves[1].with_particles(swapped))
    with FileSet(paths, known) as files:
        files.read(np.arange(1000))
        with pytest.raises(FileFormatError, match=r"1\.h5: has changed since the run was made.* event 4"):
            files.read(np.arange(900, 1100))
    with pytest.raises(FileFormatError, match=r"0\.h5: 1000 events where the run was made with 2000"):
        FileSet(paths[:1], known)
