"""Prepared npz files: which arrays they hold, where labels come from, and what is refused."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from event_files import assert_refused
from samples import random_events

from covad.errors import CovadError, EventContentError, FileFormatError
from covad.events.files import open_events
from covad.events.layout import UNLABELLED, Events
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES

SIZES = {"train": 700, "val": 200, "test": 300}


def save(path: Path, compressed: bool = False, **arrays: object) -> Path:
    """An npz file under any name."""
    with path.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return path


def splits(dtype: str = "<f8") -> dict[str, np.ndarray]:
    particles = random_events(sum(SIZES.values()), seed=6).particles.astype(dtype)[..., None]
    parts = np.split(particles, np.cumsum(list(SIZES.values()))[:-1])
    return {f"x_{split}": part for split, part in zip(SIZES, parts, strict=True)}


def labels() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {f"background_ID_{split}": rng.integers(0, 4, n) for split, n in SIZES.items()}


def stacked(arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate(list(arrays.values()))


def read(path: Path, named: Path | None = None) -> Events:
    with open_events(path, labels=named) as source:
        return source.read()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["<f8", "<f4", ">f8"])
def test_splits_are_read_in_order(tmp_path: Path, dtype: str, compressed: bool) -> None:
    arrays = splits(dtype)
    path = save(tmp_path / "datasets_-1.npz", compressed, **dict(reversed(arrays.items())))
    with open_events(path) as source:
        assert len(source) == 1200
        pieces = list(source.chunks(buffer_bytes=30_000))  # pieces cross the ends of the arrays
    assert len(pieces) > 5
    np.testing.assert_array_equal(
        np.concatenate([p.particles for p in pieces]), stacked(arrays)[..., 0].astype(np.float32)
    )
    assert all((p.process == UNLABELLED).all() for p in pieces)
    assert pieces[0].layout == ADC2021_LAYOUT


@pytest.mark.parametrize("compressed", [False, True])
def test_chosen_rows_in_any_order(tmp_path: Path, compressed: bool) -> None:
    arrays = splits()
    path = save(tmp_path / "datasets.npz", compressed, **arrays)
    rows = np.array([1199, 3, 700, 699, 3, 0, 899, 900])
    with open_events(path) as source:
        for _ in range(2):  # going back is as good as going on
            found = source.read(rows, buffer_bytes=30_000)
            np.testing.assert_array_equal(found.particles, stacked(arrays)[rows, ..., 0].astype(np.float32))


def test_arrays_without_the_last_axis(tmp_path: Path) -> None:
    path = save(tmp_path / "datasets.npz", x_val=splits()["x_val"][..., 0])
    assert len(read(path)) == SIZES["val"]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32])
def test_labels_beside_are_found_by_content(tmp_path: Path, dtype: type) -> None:
    path = save(tmp_path / "datasets_-1.npz", **splits())
    codes = {name: array.astype(dtype) for name, array in labels().items()}
    save(tmp_path / "any name", **codes)
    (tmp_path / "notes.npz").write_text("no zip at all")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and nothing more")
    (tmp_path / "directory.npz").mkdir()
    save(tmp_path / "signals.npz", ato4l=np.zeros((2, 19, 3, 1)))
    found = read(path)
    np.testing.assert_array_equal(found.process, stacked(codes))
    assert found.process_names == PROCESS_NAMES
    assert found.provenance["labels"] == "any name"


def test_labels_named_explicitly_or_in_the_same_file(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = save(tmp_path / "datasets.npz", **splits())
    named = save(elsewhere / "ids.npz", **{n: array[:, None] for n, array in labels().items()})
    np.testing.assert_array_equal(read(path, named).process, stacked(labels()))
    together = save(tmp_path / "together.npz", **splits(), **labels())
    np.testing.assert_array_equal(read(together).process, stacked(labels()))


def test_two_label_files_are_ambiguous(tmp_path: Path) -> None:
    path = save(tmp_path / "datasets.npz", **splits())
    first = save(tmp_path / "ids_a.npz", **labels())
    save(tmp_path / "ids_b.npz", **labels())
    assert_refused(path, r"more than one file beside it has process labels: ids_a\.npz, ids_b\.npz")
    assert len(read(path, first)) == 1200


def test_signals_are_labelled_by_their_array(tmp_path: Path) -> None:
    names = {"leptoquark": "lq", "ato4l": "a4l", "hChToTauNu": "hpm", "hToTauTau": "h0"}
    arrays = {
        name: random_events(10 * n, seed=n).particles[..., None] for n, name in enumerate(names, start=1)
    }
    save(tmp_path / "ids.npz", **labels())  # of the background: no concern of the signals
    found = read(save(tmp_path / "bsm_datasets_-1.npz", **arrays))
    assert found.process_counts() == {"lq": 10, "a4l": 20, "hpm": 30, "h0": 40}
    hpm = found[found.process == PROCESS_NAMES.index("hpm")]
    np.testing.assert_array_equal(hpm.particles, arrays["hChToTauNu"][..., 0])


# What is refused


class Bomb:
    """Unpickling this would be noticed."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    bombs = np.array([Bomb(), Bomb()], dtype=object)
    path = save(tmp_path / "datasets.npz", x_train=bombs)
    with pytest.raises(SystemExit, match="unpickled"):
        np.load(path, allow_pickle=True)["x_train"]
    assert_refused(path, "array 'x_train' holds pickled Python objects, which covad does not load")
    mixed = save(tmp_path / "mixed.npz", **splits(), **(labels() | {"background_ID_val": bombs}))
    assert_refused(mixed, "array 'background_ID_val' holds pickled")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 19, 4)), r"shape \(3, 19, 4\), not \(events, 19, 3, 1\)"),
        (np.zeros((3, 57)), r"shape \(3, 57\)"),
        (np.float64(3), "not stored row by row"),
        (np.asfortranarray(np.zeros((3, 19, 3))), "not stored row by row"),
        (np.zeros((3, 19, 3, 1), dtype=int), "holds int64, not floating-point numbers"),
        (np.full((3, 19, 3, 1), "1.0"), "holds <U3"),
    ],
)
def test_wrong_shape_or_type(tmp_path: Path, array: np.ndarray, message: str) -> None:
    assert_refused(save(tmp_path / "datasets.npz", x_test=array), message)


@pytest.mark.parametrize(
    ("number", "message"), [(np.nan, "not finite"), (1e300, "not finite"), (-1.0, "negative")]
)
def test_content_that_cannot_be_physics(tmp_path: Path, number: float, message: str) -> None:
    arrays = splits()
    arrays["x_val"][17, 1, 0] = number
    path = save(tmp_path / "datasets.npz", **arrays)
    assert_refused(path, f"pt of electron is {message} in event 717", EventContentError)


@pytest.mark.parametrize(
    ("bad", "message", "error"),
    [
        (np.zeros(201, int), r"'background_ID_val' has shape \(201,\) for 200 events", FileFormatError),
        (np.full(200, "w"), "holds <U1, not whole numbers", FileFormatError),
        (np.full(200, 8), "process label 8 of event 700", EventContentError),
        (np.full(200, 0.5), r"process label 0\.5 of event 700", EventContentError),
        (np.full(200, np.nan), "process label nan of event 700", EventContentError),
    ],
)
def test_bad_labels(tmp_path: Path, bad: np.ndarray, message: str, error: type[CovadError]) -> None:
    path = save(tmp_path / "datasets.npz", **splits(), **(labels() | {"background_ID_val": bad}))
    assert_refused(path, message, error)


def test_labels_of_one_split_are_missing(tmp_path: Path) -> None:
    codes = labels()
    del codes["background_ID_test"]
    path = save(tmp_path / "datasets.npz", **splits(), **codes)
    assert_refused(path, "has no array 'background_ID_test' with the labels of 'x_test'")


def test_named_labels_that_are_no_npz(tmp_path: Path) -> None:
    path = save(tmp_path / "datasets.npz", **splits())
    (tmp_path / "ids.txt").write_text("0 1 2")
    for named, message in (("ids.txt", "not a zip file"), ("nowhere", "No such file")):
        with pytest.raises(FileFormatError, match=message) as caught:
            open_events(path, labels=tmp_path / named)
        assert str(caught.value).startswith(f"{tmp_path / named}: ")


def test_npz_and_zip_of_another_kind(tmp_path: Path) -> None:
    unknown = "has no array of events"
    assert_refused(save(tmp_path / "other.npz", weights=np.zeros(3)), unknown)
    assert_refused(save(tmp_path / "labels.npz", **labels()), unknown)
    assert_refused(save(tmp_path / "hollow.npz"), unknown)
    with zipfile.ZipFile(tmp_path / "archive.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert_refused(tmp_path / "archive.npz", unknown)
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x_train.npy", "hello, this is no array")
    assert_refused(tmp_path / "text.npz", "cannot be read .*magic")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("fraction", [0.1, 0.9, 0.9999])
def test_truncated_npz(tmp_path: Path, fraction: float, compressed: bool) -> None:
    path = save(tmp_path / "datasets.npz", compressed, **splits())
    path.write_bytes(path.read_bytes()[: int(fraction * path.stat().st_size)])
    assert_refused(path, "cannot be read")


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_npz(tmp_path: Path, compressed: bool) -> None:
    path = save(tmp_path / "datasets.npz", compressed, x_train=splits()["x_train"])
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(255 - byte for byte in content[middle : middle + 8])
    path.write_bytes(content)
    with pytest.raises(CovadError, match=f"^{path}: "), open_events(path) as source:
        source.read()


def test_array_shorter_than_its_header_says(tmp_path: Path) -> None:
    whole = save(tmp_path / "whole.npz", x_train=splits()["x_train"])
    member = zipfile.ZipFile(whole).read("x_train.npy")
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        archive.writestr("x_train.npy", member[:-8])
    assert_refused(tmp_path / "short.npz", "array 'x_train' is not as long as its header says")


@pytest.mark.parametrize("shape", [(-3, 19, 3), (10**30, 19, 3), (3, 10**30)])
def test_headers_with_impossible_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    path = tmp_path / "impossible.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("x_train.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, header)
    assert_refused(path, "array 'x_train' is not as long as its header says")


def test_unknown_version_of_the_array_format(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "future.npz", "w") as archive:
        archive.writestr("x_train.npy", b"\x93NUMPY\x09\x00" + bytes(100))
    assert_refused(tmp_path / "future.npz", "array 'x_train' has the unknown format version")


def test_encrypted_npz(tmp_path: Path) -> None:
    path = save(tmp_path / "datasets.npz", x_train=splits()["x_train"])
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag in the local header
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # and in the directory
    path.write_bytes(content)
    assert_refused(path, "cannot be read .*encrypted")


def weights(*names: str) -> dict[str, np.ndarray]:
    """Weights of both signs for the three splits, and variations of them."""
    rng = np.random.default_rng(8)
    return {
        f"weight_{split}{name and '/'}{name}": rng.normal(1.0, 1.0, n)
        for name in ("", *names)
        for split, n in SIZES.items()
    }


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4"])
def test_weights_and_their_variations(tmp_path: Path, compressed: bool, dtype: str) -> None:
    arrays = {name: array.astype(dtype) for name, array in weights("up", "down").items()}
    path = save(tmp_path / "datasets.npz", compressed, **splits(), **arrays)
    nominal, up = (
        np.concatenate([arrays[f"weight_{split}{tail}"] for split in SIZES]).astype(float)
        for tail in ("", "/up")
    )
    with open_events(path) as source:
        assert (source.weighted, source.variation_names, source.varied_names) == (True, ("down", "up"), ())
        assert source.sum_of_weights == {}
        rows = np.array([1100, 3, 699, 700])
        some = source.read(rows, variations=("up",))
        np.testing.assert_array_equal(some.event_weights, nominal[rows])
        np.testing.assert_array_equal(some.variations["up"], up[rows])
        pieces = list(source.chunks(buffer_bytes=30_000, variations=("up",)))
        np.testing.assert_array_equal(np.concatenate([p.event_weights for p in pieces]), nominal)
        np.testing.assert_array_equal(np.concatenate([p.variations["up"] for p in pieces]), up)
        assert source.read().variations == {}


def test_weights_of_signals_and_of_a_last_axis(tmp_path: Path) -> None:
    events = random_events(40, seed=2).particles
    heavy = np.linspace(-1, 2, 40)
    path = save(tmp_path / "signals.npz", ato4l=events, leptoquark=events, weight_ato4l=heavy[:, None],
                weight_leptoquark=2 * heavy)  # fmt: skip
    np.testing.assert_array_equal(read(path).event_weights, [*2 * heavy, *heavy])


def test_a_label_file_of_the_same_name_is_no_second_place_of_weights(tmp_path: Path) -> None:
    path = save(tmp_path / "datasets.npz", **splits(), **labels(), **weights())
    assert read(path, named=path).weights is not None


@pytest.mark.parametrize(
    ("change", "message", "error"),
    [
        ({"weight_val": np.ones(201)}, r"'weight_val' has shape \(201,\) for 200 events", FileFormatError),
        ({"weight_val": np.ones((200, 2))}, r"'weight_val' has shape \(200, 2\)", FileFormatError),
        ({"weight_val": np.ones(200, int)}, "'weight_val' holds int64, not floating", FileFormatError),
        ({"weight_val/up": np.ones(199)}, r"'weight_val/up' has shape \(199,\)", FileFormatError),
        ({"weight_val": None}, "has no array 'weight_val', but other weights", FileFormatError),
        ({"weight_val/up": None}, "has no array 'weight_val/up', but other weights", FileFormatError),
        ({"weight_val/new": np.ones(200)}, "has no array 'weight_train/new', but other", FileFormatError),
        (
            {"weights_val": np.ones(200)},
            "array 'weights_val' would not be read: weights are",
            FileFormatError,
        ),
        ({"weigth_val": np.ones(200)}, "array 'weigth_val' would not be read", FileFormatError),
        ({"weight": np.ones(1200)}, "array 'weight' would not be read", FileFormatError),
        ({"weight_ato4l": np.ones(9)}, "array 'weight_ato4l' would not be read", FileFormatError),
        ({"weight_val": np.full(200, np.nan)}, "the weight is nan in event 700", EventContentError),
        ({f"weight_{s}": np.zeros(n) for s, n in SIZES.items()}, "the weight is zero in", EventContentError),
    ],
)
def test_bad_weights(tmp_path: Path, change: dict, message: str, error: type[CovadError]) -> None:
    arrays = splits() | weights("up") | change
    path = save(tmp_path / "datasets.npz", **{n: array for n, array in arrays.items() if array is not None})
    assert_refused(path, message, error)


def test_weights_beside_the_labels_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "datasets.npz", **splits())
    save(tmp_path / "ids.npz", **labels(), **weights())
    with pytest.raises(
        FileFormatError, match=r"ids\.npz: array 'weight_test' .* are in datasets\.npz itself"
    ):
        open_events(path)
