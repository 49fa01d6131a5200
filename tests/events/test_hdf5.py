"""HDF5 event files, those of covad among them: their form, what is refused, and what is left of a failure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from event_files import (
    assert_refused,
    fill,
    public_record,
    small_disk,
    unprivileged,
    write_events,
    write_public,
)

from covad.errors import (
    CovadError,
    EventContentError,
    FileFormatError,
    FileWriteError,
    LayoutError,
    UnknownNameError,
)
from covad.events.files import EventWriter, open_events
from covad.events.layout import UNLABELLED, Collection, EventLayout, Events, concatenate
from covad.events.processes import ADC2021_LAYOUT

#: What is said of a full disk.
FULL = "(No space left on device): free some space, or choose another disk"


@pytest.mark.parametrize(
    "storage", [{}, {"chunks": True, "compression": "gzip"}, {"chunks": (7, 19, 4), "compression": "lzf"}]
)
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4"])
def test_public_file_whatever_its_name(
    tmp_path: Path, events: Events, dtype: str, storage: dict[str, object]
) -> None:
    path = write_public(tmp_path / "download.npz", public_record(events).astype(dtype), events, **storage)
    with open_events(path) as source:
        found = concatenate(list(source.chunks(buffer_bytes=100_000)))
    np.testing.assert_array_equal(found.particles, events.particles)
    assert (found.process == UNLABELLED).all()
    assert found.layout == ADC2021_LAYOUT


@pytest.mark.parametrize("fraction", [0.0001, 0.01, 0.5, 0.999])
def test_truncated_hdf5(tmp_path: Path, events: Events, fraction: float) -> None:
    path = write_events(tmp_path / "events.h5", events)
    content = path.read_bytes()
    path.write_bytes(content[: max(9, int(fraction * len(content)))])
    assert_refused(path, "cannot be read")


def test_damaged_hdf5_chunk(tmp_path: Path, events: Events) -> None:
    path = write_events(tmp_path / "events.h5", events)
    with h5py.File(path) as file:
        chunk = file["Particles"].id.get_chunk_info(0)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset + chunk.size // 2)
        raw.write(b"\xff" * 64)
    assert_refused(path, "cannot be read")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("Jets", np.zeros((3, 19, 4)), r"no dataset 'Particles' \(it has Jets\)"),
        ("Particles/inner", np.zeros((3, 19, 4)), "no dataset 'Particles'"),
        ("Particles", np.zeros((3, 19, 3)), r"shape \(3, 19, 3\), not \(events, 19, 4\)"),
        ("Particles", np.zeros((3, 18, 4)), r"shape \(3, 18, 4\)"),
        ("Particles", np.zeros((3, 76)), r"shape \(3, 76\)"),
        ("Particles", np.float64(1), r"shape \(\)"),
        ("Particles", h5py.Empty("f8"), "shape None"),
        ("Particles", np.zeros((3, 19, 4), dtype=np.int32), "holds int32, not floating-point numbers"),
        ("Particles", np.zeros((3, 19, 4), dtype=complex), "holds complex128"),
        ("Particles", np.full((3, 19, 4), b"1.0"), r"holds \|S3"),
        ("Particles", np.zeros((3, 19), dtype=[("pt", "f8"), ("eta", "f8")]), "not floating-point numbers"),
    ],
)
def test_wrong_dataset_shape_or_type(tmp_path: Path, name: str, content: object, message: str) -> None:
    path = tmp_path / "wrong.h5"
    with h5py.File(path, "w") as file:
        file[name] = content
    assert_refused(path, message)


def test_a_file_with_nothing_in_it(tmp_path: Path) -> None:
    h5py.File(tmp_path / "hollow.h5", "w").close()
    assert_refused(tmp_path / "hollow.h5", r"no dataset 'Particles' \(it has nothing\)")


@pytest.mark.parametrize(
    ("column", "number", "message"),
    [
        (0, np.nan, "pt of jet is not finite"),
        (1, np.inf, "eta of jet is not finite"),
        (2, -np.inf, "phi of jet is not finite"),
        (0, 1e300, "pt of jet is not finite"),  # beyond single precision
        (0, -5.0, "pt of jet is negative"),
        (3, 2.0, "slot 9 of event 1234 has class 2 where the layout has class 4"),
        (3, np.nan, "slot 9 of event 1234 has class nan"),
    ],
)
def test_content_that_cannot_be_physics(
    tmp_path: Path, events: Events, column: int, number: float, message: str
) -> None:
    record = public_record(events)
    record[1234, 9] = [50.0, 1.0, 1.0, 4.0]
    record[1234, 9, column] = number
    path = write_public(tmp_path / "bad.h5", record, events)
    assert_refused(path, f"{message}.*", EventContentError)
    assert_refused(path, "event 1234", EventContentError)  # its number in the file, not in the piece


def test_missing_classes_are_tolerated(tmp_path: Path, events: Events) -> None:
    record = public_record(events)
    record[..., 3] = 0
    with open_events(write_public(tmp_path / "events.h5", record, events)) as source:
        np.testing.assert_array_equal(source.read().particles, events.particles)


def test_columns_in_another_order(tmp_path: Path, events: Events) -> None:
    path = write_public(tmp_path / "events.h5", public_record(events), events)
    with h5py.File(path, "a") as file:
        file["Particles_Names"][...] = [b"Eta", b"Pt", b"Phi", b"Class"]
    assert_refused(path, "'Particles_Names' lists Eta, Pt, Phi, Class, not Pt, Eta, Phi, Class")


@pytest.mark.parametrize(
    ("labels", "message", "error"),
    [
        (np.zeros(1999, np.int16), r"'process' has shape \(1999,\) for 2000 events", FileFormatError),
        (np.zeros(2000), "'process' holds float64, not whole numbers", FileFormatError),
        (
            np.full(2000, 2),
            r"process label 2 of event 0 is not one of -1 \(unlabelled\) to 1",
            EventContentError,
        ),
        (np.repeat([0, -2], [1500, 500]), "process label -2 of event 1500", EventContentError),
        (np.full(2000, 2**40), "process label 1099511627776 of event 0", EventContentError),
    ],
)
def test_bad_labels(
    tmp_path: Path, events: Events, labels: np.ndarray, message: str, error: type[CovadError]
) -> None:
    path = write_events(tmp_path / "events.h5", events)
    with h5py.File(path, "a") as file:
        del file["process"]
        file["process"] = labels
    assert_refused(path, message, error)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("covad_format", "2", "has no dataset 'weight'"),  # a file with weights has lost them
        ("covad_format", "3", "has event format 3, but this covad reads formats up to 2"),
        ("covad_format", '"new"', "has event format 'new'"),
        ("layout", "[{", "the attribute 'layout': cannot be read, "),
        ("layout", 3.0, "the attribute 'layout': cannot be read, "),
        ("layout", "[" * 100_000, "the attribute 'layout': cannot be read, "),
        ("layout", json.dumps([{"name": "jet"}]), "lacks features, slots"),
        ("layout", json.dumps([{"name": "jet", "slots": 6, "features": ["pt"]}]), r"not \(events, 6, 2\)"),
        ("process_names", '"w"', "'process_names' is not a list of names"),
        ("process_names", "[1, 2]", "'process_names' is not a list of names"),
        ("process_names", '["w", "w"]', "'process_names' lists a name twice"),
        ("provenance", "[]", "'provenance' is not a mapping"),
    ],
)
def test_bad_attributes(tmp_path: Path, events: Events, name: str, value: object, message: str) -> None:
    path = write_events(tmp_path / "events.h5", events)
    with h5py.File(path, "a") as file:
        file.attrs[name] = value
    assert_refused(path, message)


JETS_ONLY = EventLayout((Collection("jet", 2),))


def test_written_file_has_the_public_layout(tmp_path: Path, events: Events) -> None:
    path = write_events(tmp_path / "events.h5", events)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["Particles"][()], public_record(events).astype(np.float32))
        assert list(file["Particles_Names"]) == [b"Pt", b"Eta", b"Phi", b"Class"]
        assert list(file["Particles_Classes"]) == [
            b"MET_class_1",
            b"Four_Ele_class_2",
            b"Four_Mu_class_3",
            b"Ten_Jet_class_4",
        ]
        assert file["Particles"].compression == "gzip", "other programs cannot read h5py's own filters"


def test_same_events_make_the_same_bytes(tmp_path: Path, events: Events) -> None:
    first, second = write_events(tmp_path / "a.h5", events), write_events(tmp_path / "b.h5", events)
    assert first.read_bytes() == second.read_bytes()


def test_writer_renumbers_labels_by_name(tmp_path: Path, events: Events) -> None:
    path = tmp_path / "events.h5"
    with EventWriter(path, events.layout, ("qcd", "z", "w")) as writer:
        writer.append(events)
        writer.append(Events.unlabelled(events.layout, events.particles[:3]))
    with open_events(path) as source:
        counts = source.read().process_counts()
    assert counts == events.process_counts() | {"unlabelled": 3}


def write_and_fail(path: Path, events: Events) -> None:
    with EventWriter(path, events.layout, events.process_names) as writer:
        writer.append(events)
        raise ZeroDivisionError


def test_nothing_is_left_of_a_writer_that_failed(tmp_path: Path, events: Events) -> None:
    path = tmp_path / "events.h5"
    path.write_bytes(b"precious")
    with pytest.raises(ZeroDivisionError):
        write_and_fail(path, events)
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [np.nan, -1.0])
def test_impossible_events_are_not_written(tmp_path: Path, events: Events, number: float) -> None:
    path = tmp_path / "events.h5"
    with EventWriter(path, events.layout, events.process_names) as writer:
        writer.append(events[:10])
        events.particles[4, 1, 0] = number
        with pytest.raises(EventContentError, match=rf"^{path}: pt of electron .* in event 14$"):
            writer.append(events[:10])
    with open_events(path) as source:
        assert len(source) == 10


@pytest.mark.parametrize(
    ("layout", "names", "error", "message"),
    [
        (JETS_ONLY, ("w", "qcd"), LayoutError, "another layout"),
        (ADC2021_LAYOUT, ("w",), UnknownNameError, "qcd is not among w"),
    ],
)
def test_writer_refuses_other_layouts_and_names(
    tmp_path: Path,
    events: Events,
    layout: EventLayout,
    names: tuple[str, ...],
    error: type[CovadError],
    message: str,
) -> None:
    with pytest.raises(error, match=message), EventWriter(tmp_path / "a.h5", layout, names) as writer:
        writer.append(events)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "not a regular file"),
        ("missing/events.h5", "No such file or directory"),
        ("file/events.h5", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, events: Events, name: str, message: str) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / name
    with pytest.raises(FileWriteError, match=message) as caught, EventWriter(path, events.layout):
        pass
    assert str(caught.value).startswith(f"{path}: cannot be written")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_devices_are_not_replaced() -> None:
    with (
        pytest.raises(FileWriteError, match="not a regular file"),
        EventWriter(Path(os.devnull), JETS_ONLY),
    ):
        pass
    assert not Path(os.devnull).is_file()


def test_no_permission_to_write(tmp_path: Path, events: Events) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    with (
        unprivileged(),
        pytest.raises(FileWriteError, match="Permission denied"),
        EventWriter(locked / "events.h5", events.layout),
    ):
        pass


def test_read_only_disk(tmp_path: Path, events: Events) -> None:
    with (
        small_disk(tmp_path / "disk", "1m", "ro") as disk,
        pytest.raises(FileWriteError, match="Read-only file system"),
        EventWriter(disk / "events.h5", events.layout),
    ):
        pass


# HDF5 keeps its file open and crashes at the end of the process if it learns that a disk is full, so that
# these run in a process of their own, whose exit is part of the test.
_WRITE_TOO_MUCH = r"""
import os, resource, sys
from pathlib import Path
import numpy as np
from covad.errors import FileWriteError
from covad.events.files import EventWriter
from covad.events.layout import Events
from covad.events.processes import ADC2021_LAYOUT
path, limit, n_appends, n_events = Path(sys.argv[1]), *map(int, sys.argv[2:])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
rng = np.random.default_rng(1)
events = Events.unlabelled(ADC2021_LAYOUT, rng.exponential(1.0, (n_events, 19, 3)).astype(np.float32))
appended = 0
try:
    with EventWriter(path, events.layout) as writer:
        for appended in range(n_appends):
            writer.append(events)
        appended = n_appends
except FileWriteError as error:
    print(error)
print("at the end" if appended == n_appends else "on the way")
print(*sorted(os.listdir(path.parent)))
print(*[fd for fd in os.listdir("/proc/self/fd") if "events.h5" in os.path.realpath(f"/proc/self/fd/{fd}")])
"""


#: Appends x events (300 bytes each) against room for 1 MiB, and when this shows: HDF5 holds back the last
#: 16 MiB until it closes the file.
_TOO_MUCH = [(40, 2500, "on the way"), (3, 2500, "at the end"), (1, 80_000, "on the way")]


def write_too_much(path: Path, limit: int, n_appends: int, n_events: int) -> list[str]:
    """Error, when it came, files in the directory, handles that are still open."""
    numbers = map(str, (limit, n_appends, n_events))
    command = [sys.executable, "-c", _WRITE_TOO_MUCH, str(path), *numbers]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.splitlines()


@pytest.mark.parametrize(("n_appends", "n_events", "when"), _TOO_MUCH)
def test_disk_full(tmp_path: Path, n_appends: int, n_events: int, when: str) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        target = disk / "events.h5"
        target.write_bytes(b"precious")
        output = write_too_much(target, 0, n_appends, n_events)
        assert output == [f"{target}: cannot be written {FULL}", when, "events.h5", ""]
        assert target.read_bytes() == b"precious"


def test_disk_full_from_the_start(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        fill(disk / "rest")
        target = disk / "events.h5"
        output = write_too_much(target, 0, 1, 10)
        assert output == [f"{target}: cannot be written {FULL}", "on the way", "rest", ""]


@pytest.mark.parametrize(("n_appends", "n_events", "when"), _TOO_MUCH)
def test_file_size_limit(tmp_path: Path, n_appends: int, n_events: int, when: str) -> None:
    """The same without a small disk, for machines where none can be mounted."""
    target = tmp_path / "events.h5"
    target.write_bytes(b"precious")
    output = write_too_much(target, 2**20, n_appends, n_events)
    assert output == [f"{target}: cannot be written (File too large)", when, "events.h5", ""]
    assert target.read_bytes() == b"precious"


@pytest.mark.parametrize("storage", [{"chunks": (1000, 19, 4), "compression": "gzip"}, {"chunks": None}])
def test_events_that_nobody_wrote_are_refused_at_once(tmp_path: Path, storage: dict[str, object]) -> None:
    """HDF5 makes up numbers that are not stored: a few kilobytes can declare any number of events."""
    path = tmp_path / "hollow.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("Particles", (10**12, 19, 4), dtype="f4", **storage)
    assert path.stat().st_size < 40_000
    assert_refused(path, r"'Particles' declares 1000000000000 events, which need \d+ .*, but 0 are stored")


def test_chunks_that_are_lost_are_noticed(tmp_path: Path, events: Events) -> None:
    path = tmp_path / "holes.h5"
    record = public_record(events)
    with h5py.File(path, "w") as file:
        particles = file.create_dataset("Particles", record.shape, dtype="f8", chunks=(100, 19, 4))
        particles[:1900] = record[:1900]
    assert_refused(path, "which need 20 chunks, but 19 are stored")


def test_huge_chunks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "chunk.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("Particles", (1, 19, 4), "f4", maxshape=(None, 19, 4), chunks=(10**7, 19, 4))
    assert_refused(path, "'Particles' has chunks of more than 1 GiB")


def test_numbers_in_other_files_are_refused(tmp_path: Path, events: Events) -> None:
    """The digest of a file must be that of its events."""
    whole = write_public(tmp_path / "whole.h5", public_record(events), events)
    shape = public_record(events).shape
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(shape, "f8")
        layout[:] = h5py.VirtualSource(whole, "Particles", shape)
        file.create_virtual_dataset("Particles", layout)
    (tmp_path / "raw").write_bytes(public_record(events).tobytes())
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("Particles", shape, "f8", external=[(tmp_path / "raw", 0, h5py.h5f.UNLIMITED)])
    for name in ("virtual", "external"):
        assert_refused(tmp_path / f"{name}.h5", "'Particles' has its numbers in other files")
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["Particles"] = h5py.ExternalLink(whole, "Particles")
    assert_refused(tmp_path / "link.h5", "has no dataset 'Particles'")


def test_lost_labels_are_noticed(tmp_path: Path, events: Events) -> None:
    """One flipped letter of a name must not make labelled events unlabelled ones."""
    path = write_events(tmp_path / "events.h5", events)
    content = path.read_bytes()
    assert content.count(b"\0process\0") == 1
    path.write_bytes(content.replace(b"\0process\0", b"\0prosess\0"))
    assert_refused(path, "has 'prosess'; is 'process' meant")
    path.write_bytes(content.replace(b"\0process\0", b"\0xyzcess\0"))
    assert_refused(path, "has no dataset 'process'")
    with h5py.File(write_public(tmp_path / "own.h5", public_record(events), events), "a") as file:
        file["Process"] = np.zeros(len(events), dtype=np.int16)
    assert_refused(tmp_path / "own.h5", "has 'Process'; is 'process' meant")


def test_a_damaged_link_table_is_one_sentence(tmp_path: Path, events: Events) -> None:
    """h5py raises whatever it likes where a name is looked up."""
    path = write_events(tmp_path / "events.h5", events)
    content = path.read_bytes()
    node = content.index(b"SNOD") + 8  # its entries: the offset of a name in the heap comes first
    for entry in range(4):
        damaged = bytearray(content)
        damaged[node + 40 * entry + 6] = 255
        path.write_bytes(damaged)
        assert_refused(path, "cannot be read|has no dataset")
