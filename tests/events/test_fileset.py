import numpy as np
import pytest
from samples import random_events

from covad.errors import FileFormatError
from covad.events.files import EventWriter, FileSet
from covad.events.layout import Collection, EventLayout


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
    with pytest.raises(FileFormatError, match=r"other\.h5: has other collections or processes"):
        FileSet([*files, other])


def test_a_sample_without_files_is_refused():
    with pytest.raises(FileFormatError, match="at least one event file"):
        FileSet([])
