"""HDF5 event files, those of covad among them: their form, what is refused, and what is left of a failure."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
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
from samples import weighted_events

from covad.errors import (
    CovadError,
    EventContentError,
    FileFormatError,
    FileWriteError,
    LayoutError,
    UnknownNameError,
)
from covad.events.files import EventWriter, open_events
from covad.events.hdf5 import class_names, column_names
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


def test_a_file_without_weights_is_what_it_was_before_there_were_any(tmp_path: Path, events: Events) -> None:
    """Byte for byte: written again here as covad 0.2 wrote it."""
    path = tmp_path / "before.h5"
    gzip = {"compression": "gzip", "compression_opts": 1}
    with path.open("wb+") as disk, h5py.File(disk, "w", rdcc_nbytes=16 * 2**20) as file:
        for name, texts in (("Names", column_names(events.layout)), ("Classes", class_names(events.layout))):
            file[f"Particles_{name}"] = np.array([text.encode() for text in texts])
        file.attrs["covad_format"] = "1"
        file.attrs["layout"] = json.dumps(events.layout.describe())
        file.attrs["process_names"] = json.dumps(list(events.process_names))
        file.attrs["provenance"] = json.dumps({"seed": 1})
        shape = (19, 4)
        particles = file.create_dataset(
            "Particles", (0, *shape), "f4", maxshape=(None, *shape), chunks=(2**20 // 304, *shape), **gzip
        )
        process = file.create_dataset("process", (0,), "i2", maxshape=(None,), chunks=(2**19,), **gzip)
        for dataset, content in ((particles, public_record(events)), (process, events.process)):
            dataset.resize(len(events), axis=0)
            dataset[:] = content
    assert write_events(tmp_path / "events.h5", events, seed=1).read_bytes() == path.read_bytes()


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


@pytest.fixture
def weighted(tmp_path: Path) -> Path:
    """A file with weights, two variations and varied objects, of two thousand events."""
    events = weighted_events(2000, seed=5)
    path = tmp_path / "weighted.h5"
    with EventWriter(
        path,
        events.layout,
        events.process_names,
        weighted=True,
        variations=("scaleUp", "pdf_1"),
        varied=("jesTotalUp",),
        sum_of_weights={"w": 1e6},
    ) as writer:
        for part in (events[:700], events[700:]):
            writer.append(part, {"jesTotalUp": part.particles * np.float32(1.25)})
        writer.sum_of_weights["qcd"] = np.float32(12)
    return path


def test_weights_and_what_varies_come_back(weighted: Path) -> None:
    events = weighted_events(2000, seed=5)
    with open_events(weighted) as source:
        assert source.weighted
        assert source.variation_names == ("scaleUp", "pdf_1")  # in the order of the writer
        assert source.varied_names == ("jesTotalUp",)
        assert source.sum_of_weights == {"w": 1e6, "qcd": 12.0}
        plain = source.read()
        np.testing.assert_array_equal(plain.event_weights, events.event_weights)
        np.testing.assert_array_equal(plain.particles, events.particles)
        assert plain.variations == {}
        rows = np.array([1999, 3, 700, 3])
        some = source.read(rows, 100_000, variations=("pdf_1",), varied="jesTotalUp")
        np.testing.assert_array_equal(some.event_weights, events.event_weights[rows])
        np.testing.assert_array_equal(some.variations["pdf_1"], events.variations["pdf_1"][rows])
        np.testing.assert_array_equal(some.particles, events.particles[rows] * np.float32(1.25))
        np.testing.assert_array_equal(some.process, events.process[rows])
        pieces = list(source.chunks(100_000, variations=("pdf_1", "scaleUp"), varied="jesTotalUp"))
        assert len(pieces) > 5
        whole = concatenate(pieces)
        assert list(whole.variations) == ["pdf_1", "scaleUp"]
        np.testing.assert_array_equal(whole.variations["scaleUp"], events.variations["scaleUp"])
        np.testing.assert_array_equal(whole.particles, events.particles * np.float32(1.25))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"variations": ("pdf_2",)}, r"has no weights 'pdf_2' \(it has scaleUp, pdf_1\)"),
        ({"varied": "jer"}, r"has no varied objects 'jer' \(it has jesTotalUp\)"),
    ],
)
def test_variations_that_are_not_there_are_named(weighted: Path, asked: dict, message: str) -> None:
    with open_events(weighted) as source:
        for ask in (source.read, lambda **names: next(source.chunks(**names))):
            with pytest.raises(UnknownNameError, match=message):
                ask(**asked)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4"])
def test_weights_in_a_file_of_others(tmp_path: Path, events: Events, dtype: str) -> None:
    weights = np.linspace(-1, 3, len(events)).astype(dtype)
    path = write_public(tmp_path / "own.h5", public_record(events), events)
    with h5py.File(path, "a") as file:
        file["weight"] = weights
    with open_events(path) as source:
        np.testing.assert_array_equal(source.read().event_weights, weights.astype(float))


ONES = np.ones(2000)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("weight", np.ones(1999), r"dataset 'weight' has shape \(1999,\) for 2000 events"),
        ("weight", np.ones((2000, 1)), r"dataset 'weight' has shape \(2000, 1\)"),
        ("weight", np.float64(1.0), r"dataset 'weight' has shape \(\)"),
        ("weight", h5py.Empty("f8"), "dataset 'weight' has shape None"),
        ("weight", np.ones(2000, int), "dataset 'weight' holds int64, not floating-point numbers"),
        ("weight", np.full(2000, b"1.0"), r"dataset 'weight' holds \|S3"),
        ("weight", None, r"has no dataset 'weight' \(it has Particles, "),
        ("weight", h5py.SoftLink("/nowhere"), "has no dataset 'weight': what is called so is a group, or a"),
        ("weight", h5py.ExternalLink("whole.h5", "Particles"), "has no dataset 'weight': what is called so"),
        ("weight/inner", ONES, "has no dataset 'weight': what is called so is a group"),
        ("weights", ONES, "'weights' is not a group of datasets in this file"),
        ("weights", h5py.ExternalLink("whole.h5", "/"), "'weights' is not a group of datasets in this file"),
        ("weights/pdf_1", np.ones(1999), r"dataset 'weights/pdf_1' has shape \(1999,\) for 2000 events"),
        ("weights/pdf_1", np.ones(2000, int), "dataset 'weights/pdf_1' holds int64"),
        ("weights/pdf_1/inner", ONES, "has no dataset 'weights/pdf_1': what is called so is a group"),
        ("varied", ONES, "'varied' is not a group of datasets in this file"),
        ("varied/jesTotalUp", ONES, r"'varied/jesTotalUp' has shape \(2000,\), not \(events, 19, 4\)"),
        ("varied/jesTotalUp", np.zeros((9, 19, 4)), "'varied/jesTotalUp' has 9 events beside 2000"),
        ("varied/jesTotalUp", np.zeros((2000, 19, 4), int), "'varied/jesTotalUp' holds int64"),
        ("weigth", ONES, "has 'weigth', which would not be read: call the weights of the events 'weight'"),
        ("Weight", ONES, "has 'Weight', which would not be read"),
        ("genWeight", ONES, "has 'genWeight', which would not be read"),
        ("wieghts", ONES, "has 'wieghts', which would not be read"),
        ("weoght", ONES, "has 'weoght'; is 'weight' meant"),
        ("Varied", ONES, "has 'Varied'; is 'varied' meant"),
    ],
)
def test_weights_of_another_form_are_refused(
    weighted: Path, name: str, content: object, message: str
) -> None:
    with h5py.File(weighted, "a") as file:
        if (taken := name.removesuffix("/inner")) in file:
            del file[taken]
        if content is not None:
            file[name] = content
    assert_refused(weighted, message)


@pytest.mark.parametrize(
    ("number", "message"),
    [(np.nan, "the weight is nan in event 1234"), (-np.inf, "the weight is -inf in event 1234")],
)
def test_weights_that_are_no_numbers_are_refused(weighted: Path, number: float, message: str) -> None:
    with h5py.File(weighted, "a") as file:
        file["weight"][1234] = number
        file["weights/pdf_1"][1500] = number
    assert_refused(weighted, message, EventContentError)
    with h5py.File(weighted, "a") as file:
        file["weight"][1234] = 1.0
    with open_events(weighted) as source:
        assert len(source.read()) == 2000, "a variation that nobody asks for disturbs nobody"
        with pytest.raises(EventContentError, match=r"weighted\.h5: the weight 'pdf_1' is .* in event 1500"):
            source.read(variations=("pdf_1",))


def test_weights_that_are_all_zero_are_refused(weighted: Path) -> None:
    with h5py.File(weighted, "a") as file:
        file["weights/scaleUp"][:] = 0.0
    with open_events(weighted) as source:
        assert len(source.read()) == 2000
        with pytest.raises(EventContentError, match="the weight 'scaleUp' is zero in all events"):
            source.read(variations=("scaleUp",))
        with pytest.raises(EventContentError, match="the weight 'scaleUp' is zero in all events"):
            list(source.chunks(100_000, variations=("scaleUp", "pdf_1")))
    with h5py.File(weighted, "a") as file:
        file["weight"][:] = 0.0
    assert_refused(weighted, "the weight is zero in all events", EventContentError)
    with h5py.File(weighted, "a") as file:
        file["weight"][1999] = -1.0
    with open_events(weighted) as source:
        assert len(source.read(np.arange(5))) == 5, "some events may well count nothing"
        assert len(list(source.chunks(100_000))) > 5


@pytest.mark.parametrize("name", ["weight", "weights/pdf_1", "varied/jesTotalUp"])
def test_weights_that_nobody_wrote_or_that_are_elsewhere_are_refused(weighted: Path, name: str) -> None:
    with h5py.File(weighted, "a") as file:
        record = file[name][()]
        del file[name]
        hollow = file.create_dataset(name, record.shape, record.dtype, chunks=(100, *record.shape[1:]))
        hollow[:1900] = record[:1900]
    assert_refused(weighted, f"dataset '{name}' declares 2000 events, .* 20 chunks, but 19 are stored")
    whole = weighted.with_name("whole.h5")
    with h5py.File(whole, "w") as file:
        file["x"] = record
    with h5py.File(weighted, "a") as file:
        del file[name]
        layout = h5py.VirtualLayout(record.shape, record.dtype)
        layout[:] = h5py.VirtualSource(whole, "x", record.shape)
        file.create_virtual_dataset(name, layout)
    assert_refused(weighted, f"dataset '{name}' has its numbers in other files")
    weighted.with_name("raw").write_bytes(record.tobytes())
    with h5py.File(weighted, "a") as file:
        del file[name]
        place = [(str(weighted.with_name("raw")), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset(name, record.shape, record.dtype, external=place)
    assert_refused(weighted, f"dataset '{name}' has its numbers in other files")
    with h5py.File(weighted, "a") as file:
        del file[name]
        file["elsewhere"] = h5py.ExternalLink(str(whole), "x")
        file[name] = h5py.SoftLink("/elsewhere")
    assert_refused(weighted, f"has no dataset '{name}': what is called so is a group, or a link to elsewhere")


def test_varied_objects_are_checked_as_all_others(weighted: Path) -> None:
    with h5py.File(weighted, "a") as file:
        file["varied/jesTotalUp"][1234, 9] = [np.nan, 0.0, 0.0, 4.0]
    with open_events(weighted) as source:
        assert len(source.read()) == 2000
        with pytest.raises(EventContentError, match="'jesTotalUp': pt of jet is not finite in event 1234"):
            source.read(varied="jesTotalUp")
    with h5py.File(weighted, "a") as file:
        file["varied/jesTotalUp"][1234, 9] = [50.0, 0.0, 0.0, 3.0]
    with (
        open_events(weighted) as source,
        pytest.raises(EventContentError, match=r"'jesTotalUp': slot 9 of .* class 3"),
    ):
        source.read(varied="jesTotalUp")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[]", "'sum_of_weights' is not a mapping"),
        ('{"z": 1}', "'sum_of_weights' names 'z', but the processes are w, qcd"),
        ('{"w": NaN}', "'sum_of_weights' of 'w' is nan, not a finite number"),
        ('{"w": "1"}', "'sum_of_weights' of 'w' is '1', not a finite number"),
        ('{"w": true}', "'sum_of_weights' of 'w' is True, not a finite number"),
        ("{", "the attribute 'sum_of_weights': cannot be read"),
    ],
)
def test_bad_sums_of_generator_weights(weighted: Path, value: str, message: str) -> None:
    with h5py.File(weighted, "a") as file:
        file.attrs["sum_of_weights"] = value
    assert_refused(weighted, message)


def test_variations_without_weights_are_refused(tmp_path: Path, events: Events) -> None:
    path = write_events(tmp_path / "events.h5", events)
    with h5py.File(path, "a") as file:
        file["weights/up"] = ONES
    assert_refused(path, "has weights in 'weights' but no dataset 'weight', which they vary")


def test_lost_weights_are_noticed(tmp_path: Path, events: Events) -> None:
    """Damage to a name must not make events of all weights events that count once."""
    path = write_events(tmp_path / "events.h5", replace(events, weights=2.0 * ONES))
    content = path.read_bytes()
    assert content.count(b"\0weight\0") == 1
    path.write_bytes(content.replace(b"\0weight\0", b"\0xyzabt\0"))
    assert_refused(path, r"has no dataset 'weight' \(it has .*xyzabt")


def test_a_writer_refuses_names_that_hdf5_cannot_have(tmp_path: Path) -> None:
    for name in ("", ".", "..", "a/b", "a\0b"):
        with pytest.raises(LayoutError, match="cannot name a variation"):
            EventWriter(tmp_path / "a.h5", JETS_ONLY, varied=(name,))
    with pytest.raises(LayoutError, match="named twice: up, up"):
        EventWriter(tmp_path / "a.h5", JETS_ONLY, weighted=True, variations=("up", "up"))
    with pytest.raises(LayoutError, match="need weights: say weighted=True"):
        EventWriter(tmp_path / "a.h5", JETS_ONLY, variations=("up",))


def _particles(number: float) -> np.ndarray:
    particles = weighted_events(20, seed=5).particles.copy()
    particles[3, 1, 0] = number
    return particles


#: What the events of the next test have.
WEIGHTS = {"weighted": True, "variations": ("scaleUp", "pdf_1")}
JER = WEIGHTS | {"varied": ("jer",)}


@pytest.mark.parametrize(
    ("begun", "varied", "error", "message"),
    [
        ({}, {}, LayoutError, "has no room for 'weight' of the events: it was begun with Particles, process"),
        ({"weighted": True}, {}, LayoutError, "has no room for 'weights/pdf_1' of the events"),
        (WEIGHTS | {"variations": ("scaleUp", "pdf_1", "x")}, {}, LayoutError, "needs 'weights/x' of the"),
        (JER, {}, LayoutError, "needs 'varied/jer' of the events"),
        (WEIGHTS, {"jer": _particles(1.0)}, LayoutError, "has no room for 'varied/jer' of the events"),
        (JER, {"jer": _particles(1.0)[:5]}, LayoutError, r"float32 array of shape \(20, 19, 3\)"),
        (JER, {"jer": _particles(1.0).astype(float)}, LayoutError, "'varied/jer' .* not float64"),
        (JER, {"jer": _particles(np.nan)}, EventContentError, "'varied/jer': pt of .* in event 3$"),
    ],
)
def test_a_writer_takes_just_what_its_file_was_begun_with(
    tmp_path: Path, begun: dict, varied: dict, error: type[CovadError], message: str
) -> None:
    events = weighted_events(20, seed=5)
    path = tmp_path / "a.h5"
    with (
        pytest.raises(error, match=message) as caught,
        EventWriter(path, events.layout, events.process_names, **begun) as writer,
    ):
        writer.append(events, varied)
    assert str(caught.value).startswith(f"{path}: ")
    assert list(tmp_path.iterdir()) == []


def test_a_weighted_file_takes_events_that_count_once(tmp_path: Path, events: Events) -> None:
    path = tmp_path / "a.h5"
    with EventWriter(path, events.layout, events.process_names, weighted=True) as writer:
        writer.append(events)
    with open_events(path) as source:
        np.testing.assert_array_equal(source.read().weights, np.ones(len(events)))


def test_weights_that_are_no_numbers_are_not_written(tmp_path: Path) -> None:
    events = replace(weighted_events(20, seed=5), variations={})
    path = tmp_path / "a.h5"
    with EventWriter(path, events.layout, events.process_names, weighted=True) as writer:
        writer.append(events)
        events.event_weights[4] = np.nan  # which no new Events would take
        with pytest.raises(EventContentError, match=rf"^{path}: 'weight' is nan in event 24$"):
            writer.append(events)
    with open_events(path) as source:
        assert len(source) == 20


@pytest.mark.parametrize("name", ["weight", "weights/up"])
def test_a_file_in_which_nothing_counts_is_not_written(tmp_path: Path, events: Events, name: str) -> None:
    weights = {"weight": ONES, "weights/up": ONES} | {name: np.zeros(2000)}
    silent = replace(events, weights=weights["weight"], variations={"up": weights["weights/up"]})
    with pytest.raises(EventContentError, match=f"'{name}' is zero in all events"):
        write_events(tmp_path / "a.h5", silent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sums", [{"z": 1.0}, {"w": np.inf}])
def test_bad_sums_of_generator_weights_are_not_written(
    tmp_path: Path, events: Events, sums: dict[str, float]
) -> None:
    with (
        pytest.raises(FileFormatError, match="'sum_of_weights'"),
        EventWriter(tmp_path / "a.h5", events.layout, ("w", "qcd"), sum_of_weights=sums) as writer,
    ):
        writer.append(events)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_hdf5_opens_its_file_leaves_nothing(
    tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A file that HDF5 had made and nobody had taken over was left open, and broke the end of the program."""
    opened, file = [], h5py.File

    def interrupted(*arguments: object, **options: object) -> h5py.File:
        opened.append(file(*arguments, **options))
        signal.raise_signal(number)
        return opened[0]

    monkeypatch.setattr(h5py, "File", interrupted)
    writer = EventWriter(tmp_path / "x.h5", events.layout, events.process_names)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            writer.__enter__()
    finally:
        signal.signal(number, before)
    assert not opened[0], "closed"
    assert list(tmp_path.iterdir()) == []
