"""The front door: round trips, streaming, memory, and things that are no event file."""

import os
import subprocess
import sys
import tempfile
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
from event_files import assert_refused, public_record, unprivileged, write_events, write_public
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import random_events, weighted_events

from covad.errors import FileFormatError, TooFewEventsError
from covad.events.files import BUFFERS_AT_PEAK, Columns, EventWriter, FileSet, open_events
from covad.events.fingerprints import row_fingerprints
from covad.events.layout import Collection, EventLayout, Events, concatenate
from covad.events.processes import ADC2021_LAYOUT

OTHER_LAYOUT = EventLayout(
    (
        Collection("photon", 2, ("energy", "eta", "phi", "isolation")),
        Collection("tau", 3, ("energy", "eta", "phi")),
        Collection("vertex", 1, ("energy", "z")),
    )
)


def assert_same(found: Events, expected: Events) -> None:
    assert found.layout == expected.layout
    np.testing.assert_array_equal(found.particles, expected.particles)
    np.testing.assert_array_equal(found.process, expected.process)
    assert found.process_names == expected.process_names
    assert (found.weights is None) == (expected.weights is None)
    np.testing.assert_array_equal(found.event_weights, expected.event_weights)
    assert found.variations.keys() == expected.variations.keys()
    for name, weights in expected.variations.items():
        np.testing.assert_array_equal(found.variations[name], weights)


@given(
    layout=st.sampled_from([ADC2021_LAYOUT, OTHER_LAYOUT]),
    n_events=st.integers(0, 60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    buffer_bytes=st.integers(1, 20_000),
    seed=st.integers(0, 1000),
    weighted=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_round_trip_does_not_depend_on_pieces(
    layout: EventLayout, n_events: int, cuts: list[int], buffer_bytes: int, seed: int, weighted: bool
) -> None:
    events = (weighted_events if weighted else random_events)(n_events, seed, layout)
    names = tuple(events.variations)
    bounds = sorted({0, n_events, *(min(c, n_events) for c in cuts)})
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "events.h5"
        with EventWriter(path, layout, events.process_names, weighted=weighted, variations=names) as writer:
            for start, stop in pairwise(bounds):
                writer.append(events[start:stop])
        with open_events(path) as source:
            assert len(source) == n_events
            assert_same(source.read(variations=names), events)
            pieces = list(source.chunks(buffer_bytes, variations=names))
            if pieces:
                assert_same(concatenate(pieces), events)
            rows = np.random.default_rng(seed).integers(0, max(n_events, 1), 9 if n_events else 0)
            assert_same(source.read(rows, buffer_bytes, variations=names), events[rows])


def test_file_carries_labels_names_and_provenance(tmp_path: Path, events: Events) -> None:
    note = "ν" * 100_000  # longer than what HDF5 keeps in an object header
    path = write_events(tmp_path / "events.h5", events, generator="test", seed=3, note=note)
    with open_events(path) as source:
        assert source.provenance == {"generator": "test", "seed": 3, "note": note}
        assert source.process_names == ("w", "qcd")
        assert source.read().provenance == source.provenance
        assert source.untidied == 0


def test_untidy_objects_are_mended_and_counted(tmp_path: Path, events: Events) -> None:
    record = public_record(events)
    record[5, 9:19] = record[5, 18:8:-1]
    record[6, 18, :] = [0, 1.5, 2.5, 0]  # direction without an object
    path = write_public(tmp_path / "untidy.h5", record, events)
    with open_events(path) as source:
        np.testing.assert_array_equal(source.read().particles[:5], events.particles[:5])
        expected, n_untidy = events.layout.tidy(record[..., :3].astype(np.float32))
        assert 1 <= n_untidy <= 2
        assert source.untidied == n_untidy
        np.testing.assert_array_equal(source.read().particles, expected)


def test_rows_outside_the_file_are_refused(tmp_path: Path, events: Events) -> None:
    path = write_events(tmp_path / "events.h5", events)
    with open_events(path) as source:
        for row in (-1, len(events)):
            with pytest.raises(TooFewEventsError, match=f"event {row} was asked for, but there are 2000"):
                source.read(np.array([0, row]))


HDF5_CACHE = 8 * 2**20
_PEAK = r"""
import re, sys
from pathlib import Path
from covad.events.files import open_events
def peak():
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
buffer_bytes = int(sys.argv[2])
with open_events(Path(sys.argv[1])) as source:
    next(iter(source.chunks(1000)))
    before = peak()
    n_events = sum(len(chunk) for chunk in source.chunks(buffer_bytes))
    assert n_events == len(source)
    print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
@pytest.mark.parametrize("format_", ["hdf5", "npz"])
def test_resident_memory_is_bounded_by_the_buffer(tmp_path: Path, format_: str) -> None:
    """A file of 230 MB or more, every event untidy, through a buffer of 8 MB."""
    record = np.tile(public_record(random_events(20_000, seed=4)), (20, 1, 1))
    record[:, 18] = [0, 1, 1, 0]
    path = tmp_path / "large"
    if format_ == "hdf5":
        write_public(path, record, random_events(1, seed=4))
    else:
        with path.open("wb") as file:
            np.savez(file, x_train=record[..., :3])
    buffer_bytes = 8 * 2**20
    assert path.stat().st_size > 20 * buffer_bytes
    run = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path), str(buffer_bytes)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) < BUFFERS_AT_PEAK * buffer_bytes


def test_array_memory_is_bounded_by_the_buffer(tmp_path: Path) -> None:
    """The least favourable file: single precision, so that nothing shrinks on the way, all of it untidy."""
    record = np.tile(public_record(random_events(10_000, seed=4)).astype(np.float32), (8, 1, 1))
    record[:, 18] = [0, 1, 1, 0]
    path = write_public(tmp_path / "large.h5", record, random_events(1, seed=4))
    buffer_bytes = 2**20
    assert record.nbytes > 20 * buffer_bytes
    del record
    with open_events(path) as source:
        tracemalloc.start()
        for chunk in source.chunks(buffer_bytes):
            assert len(chunk)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert source.untidied == 80_000
    assert peak < BUFFERS_AT_PEAK * buffer_bytes


_PEAK_OF_VARIATIONS = _PEAK.replace("chunks(", "chunks(variations=sys.argv[3:], buffer_bytes=")
_VARIATIONS = [f"pdf_{number}" for number in range(80)]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
@pytest.mark.parametrize("asked", [0, 80])
@pytest.mark.parametrize("format_", ["hdf5", "npz"])
def test_resident_memory_with_eighty_variations_is_bounded_by_the_buffer(
    tmp_path: Path, format_: str, asked: int
) -> None:
    """64 MB of weights beside 30 MB of objects, through a buffer of 2 MB."""
    n_events, buffer_bytes = 100_000, 2 * 2**20
    record = np.tile(public_record(random_events(10_000, seed=4)).astype(np.float32), (10, 1, 1))
    ones = np.ones(n_events)
    path = tmp_path / "large"
    if format_ == "hdf5":
        write_public(path, record, random_events(1, seed=4))
        with h5py.File(path, "a") as file:
            for name in ("weight", *(f"weights/{name}" for name in _VARIATIONS)):
                file.create_dataset(name, data=ones, chunks=True, compression="gzip")
    else:
        weights = {f"weight_train/{name}": ones for name in _VARIATIONS} | {"weight_train": ones}
        with path.open("wb") as file:
            np.savez_compressed(file, x_train=record[..., :3], **weights)
    run = subprocess.run(
        [sys.executable, "-c", _PEAK_OF_VARIATIONS, str(path), str(buffer_bytes), *_VARIATIONS[:asked]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) < BUFFERS_AT_PEAK * buffer_bytes + HDF5_CACHE


def test_things_that_are_no_event_file(tmp_path: Path) -> None:
    assert_refused(tmp_path, "is a directory")
    assert_refused(tmp_path / "nowhere.h5", "No such file")
    assert_refused(Path(os.devnull), "not a regular file")
    (tmp_path / "empty.h5").touch()
    assert_refused(tmp_path / "empty.h5", "is empty")
    (tmp_path / "text.h5").write_text("Particles\n")
    assert_refused(tmp_path / "text.h5", "neither an HDF5 file nor an npz file")
    assert_refused(tmp_path / "text.h5" / "file", "Not a directory|No such file")


def test_no_permission_to_read(tmp_path: Path, events: Events) -> None:
    path = write_events(tmp_path / "events.h5", events)
    path.chmod(0)
    with unprivileged():
        assert_refused(path, "Permission denied")


def test_labels_cannot_be_given_to_hdf5(tmp_path: Path, events: Events) -> None:
    path = write_events(tmp_path / "events.h5", events)
    with pytest.raises(FileFormatError, match="takes no labels from another file"):
        open_events(path, labels=path)


def write(path, events):
    with EventWriter(path, events.layout, events.process_names) as writer:
        writer.append(events)
    return path


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / f"{n}.h5", random_events(n, seed=n)) for n in (50, 30, 70)]


def test_rows_are_counted_through_all_files(files):
    whole = np.concatenate([random_events(n, seed=n).particles for n in (50, 30, 70)])
    rows = np.array([0, 3, 49, 50, 79, 80, 149])
    with FileSet(files) as events:
        assert len(events) == 150
        assert np.array_equal(events.read(rows).particles, whole[rows])
        assert np.array_equal(events.read(np.arange(85, 90)).particles, whole[85:90])


def test_pieces_are_the_same_events(files):
    rows = np.arange(5, 140, 3)
    with FileSet(files) as events:
        pieces = list(events.pieces(rows, size=7))
        together = np.concatenate([piece.particles for piece in pieces])
        assert max(len(piece) for piece in pieces) == 7
        assert np.array_equal(together, events.read(rows).particles)


def test_no_rows_are_no_events(files):
    with FileSet(files) as events:
        assert len(events.read(np.array([], dtype=np.int64))) == 0


def test_a_file_of_another_kind_is_named(files, tmp_path):
    layout = EventLayout((Collection("photon", 2),))
    other = write(tmp_path / "other.h5", random_events(10, 1, layout))
    with pytest.raises(FileFormatError, match=r"other\.h5: has other collections than"):
        FileSet([*files, other])


def test_a_sample_without_files_is_refused():
    with pytest.raises(FileFormatError, match="at least one event file"):
        FileSet([])


def labelled(n_events: int, seed: int, names: tuple[str, ...], weights: float | None = None) -> Events:
    events = random_events(n_events, seed)
    column = None if weights is None else weights * (1.0 + np.arange(n_events))
    codes = (np.arange(n_events) % len(names)).astype(np.int16)
    return replace(events, process=codes, process_names=names, weights=column)


def weighted(path: Path, events: Events) -> Path:
    names, has_weights = events.process_names, events.weights is not None
    with EventWriter(path, events.layout, names, {}, weighted=has_weights) as writer:
        writer.append(events)
    return path


def test_files_with_other_names_are_one_sample(tmp_path: Path) -> None:
    """Names count, not numbers; every piece has the names of the whole sample."""
    first, second = labelled(20, 1, ("w", "qcd")), labelled(10, 2, ("z", "w"))
    paths = [weighted(tmp_path / "a.h5", first), weighted(tmp_path / "b.h5", second)]
    with FileSet(paths) as files:
        assert files.process_names == ("w", "qcd", "z")
        assert not files.weighted
        events = files.read(np.array([0, 1, 20, 21]))
        assert events.weights is None
        assert [events.process_names[code] for code in events.process] == ["w", "qcd", "z", "w"]
        for part in (files.read(np.array([25])), *files.chunks(), *files.pieces(np.arange(30), 7)):
            assert part.process_names == files.process_names
        assert [part.process_names for part in files.raw_chunks()] == [("w", "qcd"), ("z", "w")]
        assert [len(rows) for _, rows in files.parts] == [20, 10]


def test_scales_multiply_weights_and_labels_merge(tmp_path: Path) -> None:
    first, second = labelled(20, 1, ("w", "qcd"), 0.5), labelled(10, 2, ("v",))
    paths = [weighted(tmp_path / "a.h5", first), weighted(tmp_path / "b.h5", second)]
    with FileSet(paths, scales={"w": 2.0, "qcd": 3.0, "v": 5.0}, labels={"v": "w"}) as files:
        assert files.process_names == ("w", "qcd")
        events = files.read(np.arange(30))
        known = row_fingerprints(first), row_fingerprints(second)
    expected = np.concatenate([first.weights * np.where(first.process == 0, 2.0, 3.0), np.full(10, 5.0)])
    np.testing.assert_allclose(events.weights, expected)
    np.testing.assert_array_equal(events.process, [*first.process, *[0] * 10])
    # rows are compared with what stands in the files, whatever scales and labels are
    with FileSet(paths, np.concatenate(known), scales={"w": 9.0, "qcd": 1.0, "v": 1.0}) as files:
        files.read(np.arange(30))
    with (
        FileSet(paths, np.concatenate(known)[::-1], scales={"w": 9.0, "qcd": 1.0, "v": 1.0}) as files,
        pytest.raises(
            FileFormatError, match=r"a\.h5: has changed since the run was made, for instance event 0"
        ),
    ):
        files.read(np.arange(30))


def test_some_files_with_weights_and_some_without_are_refused(tmp_path: Path) -> None:
    paths = [
        weighted(tmp_path / "a.h5", labelled(5, 1, ("w",))),
        weighted(tmp_path / "b.h5", labelled(5, 2, ("w",), 1.0)),
    ]
    for order in (paths, paths[::-1]):
        with pytest.raises(FileFormatError, match=r"a\.h5: has no weights, but .*b\.h5 has"):
            FileSet(order)


def test_events_without_a_scale_are_refused(tmp_path: Path) -> None:
    path = weighted(tmp_path / "a.h5", labelled(5, 1, ("w", "qcd")))
    with (
        FileSet([path], scales={"w": 2.0}) as files,
        pytest.raises(FileFormatError, match=r"a\.h5: has events of the process 'qcd', of which source"),
    ):
        files.read(np.arange(5))


def with_columns(n_events: int, seed: int, process: str, names: tuple[str, ...]) -> Events:
    """Weighted events of one process, with other weights and objects of these names."""
    events = weighted_events(n_events, seed)
    labels = np.zeros(n_events, dtype=np.int16)
    weights = {name: events.event_weights * (2.0 + number) for number, name in enumerate(names)}
    objects = {name: events.particles * np.float32(1.5) for name in names}
    return replace(events, process=labels, process_names=(process,), variations=weights, varied=objects)


def write_columns(path: Path, events: Events) -> Path:
    names = {"variations": tuple(events.variations), "varied": tuple(events.varied)}
    with EventWriter(path, events.layout, events.process_names, weighted=True, **names) as writer:
        writer.append(events, dict(events.varied))
    return path


def test_columns_are_read_with_the_events(tmp_path: Path) -> None:
    parts = [with_columns(30, 1, "w", ("up", "down")), with_columns(20, 2, "qcd", ("down", "up", "more"))]
    paths = [write_columns(tmp_path / f"{n}.h5", part) for n, part in enumerate(parts)]
    columns = Columns({"up": None, "down": None}, {"down": None})
    with FileSet(paths, columns=columns, scales={"w": 1.0, "qcd": 3.0}) as files:
        rows = np.array([0, 7, 29, 30, 41])
        found = files.read(rows)
        assert list(found.variations) == ["up", "down"]
        assert list(found.varied) == ["down"]
        np.testing.assert_array_equal(found.variations["up"][:3], 2.0 * parts[0].event_weights[rows[:3]])
        np.testing.assert_allclose(found.variations["up"][3:], 9.0 * parts[1].event_weights[rows[3:] - 30])
        np.testing.assert_array_equal(found.varied["down"][:3], parts[0].varied["down"][rows[:3]])
        # a piece with varied objects has as many numbers as one without
        assert [len(piece) for piece in files.pieces(np.arange(50), 40)] == [20, 20, 10]
        assert len(files.read(np.zeros(0, dtype=np.int64))) == 0


def test_columns_that_no_file_has_are_refused_at_once(tmp_path: Path) -> None:
    path = write_columns(tmp_path / "w.h5", with_columns(30, 1, "w", ("up",)))
    for columns, message in (
        (Columns({"dwn": None}), r"no file has the weights 'dwn' .*\(they have up\)"),
        (Columns({}, {"dwn": frozenset({"w"})}), r"no file has the varied objects 'dwn'"),
    ):
        with pytest.raises(FileFormatError, match=message):
            FileSet([path], columns=columns)
    with FileSet([path], columns=Columns({"dwn": frozenset({"z"})})) as files:
        found = files.read(np.arange(30))
        np.testing.assert_array_equal(found.variations["dwn"], found.event_weights)


def test_columns_that_some_files_lack_are_needed_by_their_processes(tmp_path: Path) -> None:
    parts = [with_columns(30, 1, "w", ("up",)), with_columns(20, 2, "qcd", ())]
    paths = [write_columns(tmp_path / f"{n}.h5", part) for n, part in enumerate(parts)]
    with FileSet(paths, columns=Columns({"up": None})) as files:
        files.read(np.arange(30))
        with pytest.raises(FileFormatError, match=r"1\.h5: has no weights 'up', which .* events of qcd"):
            files.read(np.arange(50))
    with FileSet(paths, columns=Columns({"up": frozenset({"w"})}, {"up": frozenset({"w"})})) as files:
        found = files.read(np.arange(50))
        np.testing.assert_array_equal(found.variations["up"][30:], found.event_weights[30:])
        np.testing.assert_array_equal(found.varied["up"][30:], found.particles[30:])
        np.testing.assert_array_equal(found.varied["up"][:30], parts[0].varied["up"])
