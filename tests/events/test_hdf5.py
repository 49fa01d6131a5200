"""HDF5 event files of others, and what is refused of them."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from event_files import assert_refused, public_record, write_events, write_public

from covad.errors import CovadError, EventContentError, FileFormatError
from covad.events.files import open_events
from covad.events.layout import UNLABELLED, Events, concatenate
from covad.events.processes import ADC2021_LAYOUT


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
        ("covad_format", "2", "has event format 2, but this covad reads formats up to 1"),
        ("covad_format", '"new"', "has event format 'new'"),
        ("layout", "[{", "the attribute 'layout' is not JSON"),
        ("layout", 3.0, "the attribute 'layout' is not JSON"),
        ("layout", "[" * 100_000, "the attribute 'layout' is not JSON"),
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
