"""Event files that are not what they seem: as background of a study, and as observed file."""

from __future__ import annotations

import copy
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml
from faults.fault import RUN, TEST, Fault, Prepare, replace
from faults.world import STUDY, World

Change = Callable[[Path], None]


def with_particles(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Return what changes the events of a file, and leaves all else."""

    def apply(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            particles, process = change(file["Particles"][()]), file["process"][()]
            attributes = dict(file["Particles"].attrs)
            labels = np.resize(process, len(particles)) if len(particles) != len(process) else process
            for name, content in (("Particles", particles), ("process", labels)):
                del file[name]
                file.create_dataset(name, data=content)
            file["Particles"].attrs.update(attributes)

    return apply


def with_file(change: Callable[[Any], None]) -> Change:
    """Return what changes an HDF5 file by hand."""

    def apply(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return apply


def with_bytes(change: Callable[[bytes], bytes]) -> Change:
    """Return what changes the bytes of a file."""
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def _set(event: int, slot: int, feature: int, value: float) -> Change:
    def change(particles: np.ndarray) -> np.ndarray:
        particles[event, slot, feature] = value
        return particles

    return with_particles(change)


def _scaled(feature: int, factor: float) -> Change:
    def change(particles: np.ndarray) -> np.ndarray:
        particles[..., feature] *= factor
        return particles

    return with_particles(change)


def _attribute(name: str, value: Any) -> Change:
    return with_file(lambda file: file.attrs.__setitem__(name, value))


def _dataset(name: str, content: Any, **options: Any) -> Change:
    def change(file: Any) -> None:
        if name in file:
            del file[name]
        if content is not None:
            file.create_dataset(name, data=content, **options)

    return with_file(change)


def _declare_many(file: Any) -> None:
    """A file of a few kB that claims 1e12 events."""
    for name, shape, dtype in (("Particles", (19, 4), "f4"), ("process", (), "i2")):
        del file[name]
        file.create_dataset(
            name, shape=(10**12, *shape), chunks=(1000, *shape), dtype=dtype, compression="gzip"
        )


def _npz(**arrays: Any) -> Change:
    def change(path: Path) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        path.write_bytes(buffer.getvalue())

    return change


def _empty_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w"):
        pass


def _external(file: Any) -> None:
    """The events stand in another file, which nobody has digested."""
    del file["Particles"]
    file["Particles"] = h5py.ExternalLink("run/events/background_0.h5", "Particles")
    del file["process"]


def _broken_link(file: Any) -> None:
    del file["Particles"]
    file["Particles"] = h5py.SoftLink("/elsewhere")


def _other_layout(file: Any) -> None:
    layout = json.loads(file.attrs["layout"])
    layout[3]["name"] = "fatjet"
    file.attrs["layout"] = json.dumps(layout)
    del file["Particles_Classes"]


def _slots_shifted(particles: np.ndarray) -> np.ndarray:
    return np.roll(particles, 1, axis=1)


FOREIGN: tuple[tuple[str, Change, str], ...] = (
    ("empty", with_bytes(lambda content: b""), "is empty"),
    ("half of it", with_bytes(lambda content: content[: len(content) // 2]), r"\.h5"),
    ("its last kB is gone", with_bytes(lambda content: content[:-1024]), r"\.h5"),
    ("text", with_bytes(lambda content: b"event,pt\n1,30\n"), "neither an HDF5 file nor an npz file"),
    ("zeros", with_bytes(lambda content: bytes(len(content))), "neither an HDF5 file nor an npz file"),
    ("its signature and nothing else", with_bytes(lambda content: content[:8]), r"\.h5"),
    ("of a later version", _attribute("covad_format", "99"), "format 99"),
    ("its version is no number", _attribute("covad_format", "[1"), "covad_format"),
    ("its layout is text", _attribute("layout", "jets"), "layout"),
    ("its layout has 1e5 brackets", _attribute("layout", "[" * 60_000), "layout"),
    ("its layout is a number", _attribute("layout", "5"), "layout"),
    ("its names are numbers", _attribute("process_names", "[1, 2]"), "process_names"),
    ("a name stands twice", _attribute("process_names", '["w", "w", "z", "qcd"]'), "twice"),
    ("columns in another order",
     _dataset("Particles_Names", [b"Eta", b"Pt", b"Phi", b"Class"]), "Particles_Names"),
    ("no events in it", _dataset("Particles", None), "no dataset 'Particles'"),
    ("whole numbers", _dataset("Particles", np.ones((50, 19, 4), dtype="i4")), "floating-point"),
    ("a table", _dataset("Particles", np.ones((50, 76), dtype="f4")), "shape"),
    ("too few slots", _dataset("Particles", np.ones((50, 18, 4), dtype="f4")), "shape"),
    ("more labels than events", _dataset("process", np.zeros(7, dtype="i2")), "shape"),
    ("an unknown label", with_file(lambda file: file["process"].__setitem__(3, 99)), "label 99 of event 3"),
    ("NaN", _set(3, 0, 0, np.nan), "event 3"),
    ("infinity", _set(3, 0, 0, np.inf), "event 3"),
    ("a negative pt", _set(3, 0, 0, -5), "event 3"),
    ("slots shifted by one", with_particles(_slots_shifted), "class"),
    ("1e12 events declared", with_file(_declare_many), r"\.h5"),
    ("another layout", with_file(_other_layout), "layout|fatjet|jet"),
    ("a link to nowhere", with_file(_broken_link), r"\.h5"),
    ("an external link", with_file(_external), r"\.h5"),
    ("an empty zip", _empty_zip, r"\.h5"),
    ("an npz of other arrays", _npz(a=np.zeros(3)), r"\.h5"),
    ("an npz of pickles", _npz(x_train=np.array([{}, {}], dtype=object)), r"\.h5"),
)  # fmt: skip


def _some(name: str) -> Change:
    """Events of the run's own background among the observed ones."""

    def change(path: Path) -> None:
        with h5py.File(path.parent / "run" / "events" / name) as file:
            own = file["Particles"][:40]
        with_particles(lambda particles: np.concatenate([particles[40:], own]))(path)

    return change


def _collection_without(slots: slice) -> Change:
    def change(particles: np.ndarray) -> np.ndarray:
        particles[:, slots] = 0
        return particles

    return with_particles(change)


def _constant(slots: slice, feature: int) -> Change:
    def change(particles: np.ndarray) -> np.ndarray:
        particles[:, slots, feature] = np.where(particles[:, slots, 0] > 0, 0.5, 0)
        return particles

    return with_particles(change)


def _phi_of_the_other_convention(particles: np.ndarray) -> np.ndarray:
    particles[..., 2] = np.where(particles[..., 0] > 0, particles[..., 2] % (2 * np.pi), 0)
    return particles


def _thrice(particles: np.ndarray) -> np.ndarray:
    """Three times as many events, none of them like another."""
    copies = [particles.copy() for _ in range(3)]
    for number, part in enumerate(copies):
        part[..., 0] *= 1 + 0.01 * number
    return np.concatenate(copies)


BACKGROUND_ONLY: tuple[tuple[str, Change, str], ...] = (
    ("no labels", _dataset("process", None), "process"),
    ("all labels lost",
     with_file(lambda file: file["process"].__setitem__(slice(None), -1)), "process label"),
    ("too few events", with_particles(lambda particles: particles[:500]), "500 events, but the splits ask"),
)  # fmt: skip
OBSERVED_REFUSED: tuple[tuple[str, Change, str], ...] = (
    ("no events", with_particles(lambda particles: particles[:0]), "none of its 0 events|no events"),
    ("nothing passes the cuts", _scaled(0, 1e-3), "none of its .* events passes"),
    ("40 events of the run's background", _some("background_0.h5"), "40"),
    ("40 events of the run's signal", _some("a4l_0.h5"), "40"),
)  # fmt: skip
OBSERVED_WARNED: tuple[tuple[str, Change, str], ...] = (
    ("pt in MeV", _scaled(0, 1e3), "pt"),
    ("no jets", _collection_without(slice(9, 19)), "jet"),
    ("eta of the jets constant", _constant(slice(9, 19), 1), "eta"),
    ("eta of the muons constant", _constant(slice(5, 9), 1), "muon|eta"),
    ("phi from 0 to 2 pi", with_particles(_phi_of_the_other_convention), "phi"),
    ("five events repeated", with_particles(lambda p: np.tile(p[:5], (41, 1, 1))),
     "repeat|duplicate|twice|alike|copies"),
    ("three times as many events", with_particles(_thrice), "expected"),
)  # fmt: skip


def study_of_files(world: World, background: list[str], signal: list[str], **source: Any) -> None:
    """Write a study whose events come from files."""
    study = copy.deepcopy(STUDY)
    study["source"] |= {"background": {"files": background}, "signals": {"a4l": {"files": signal}}, **source}
    world.study.write_text(yaml.safe_dump(study, sort_keys=False))


def own(world: World) -> tuple[Path, Path]:
    """Give the event files of the run to the user, outside of the run."""
    found = []
    for name in ("background_0.h5", "a4l_0.h5"):
        found.append(world.path / name)
        shutil.copyfile(world.run / "events" / name, found[-1])
    study_of_files(world, ["background_0.h5"], ["a4l_0.h5"])
    return found[0], found[1]


def background(change: Change) -> Prepare:
    """Return what puts a changed background file into a study of files."""
    return lambda world: change(own(world)[0])


def observed(change: Change) -> Prepare:
    """Return what changes the observed file."""

    def prepare(world: World) -> None:
        replace(world.observed, world.observed.read_bytes())
        change(world.observed)

    return prepare


def _twice(world: World) -> None:
    own(world)
    study_of_files(world, ["background_0.h5", "background_0.h5"], ["a4l_0.h5"])


def _byte_copy(world: World) -> None:
    first, _ = own(world)
    shutil.copyfile(first, world.path / "more.h5")
    study_of_files(world, ["background_0.h5", "more.h5"], ["a4l_0.h5"])


def _symbolic_link(world: World) -> None:
    first, _ = own(world)
    (world.path / "more.h5").symlink_to(first)
    study_of_files(world, ["background_0.h5", "more.h5"], ["a4l_0.h5"])


def _signal_is_background(world: World) -> None:
    own(world)
    study_of_files(world, ["background_0.h5"], ["background_0.h5"])


def _rewritten_copy(world: World) -> None:
    """The same events in a file of other bytes."""
    first, _ = own(world)
    shutil.copyfile(first, world.path / "more.h5")
    with_particles(lambda particles: particles[::-1].copy())(world.path / "more.h5")
    study_of_files(world, ["background_0.h5", "more.h5"], ["a4l_0.h5"])


def _overlap(world: World) -> None:
    """Background events in the file of the signal."""
    first, second = own(world)
    with h5py.File(first) as file:
        some = file["Particles"][:20]
    with_particles(lambda particles: np.concatenate([particles[:-20], some]))(second)


def repeated(share: float, **source: Any) -> Prepare:
    """Return what repeats a share of the background's events inside its file."""

    def change(particles: np.ndarray) -> np.ndarray:
        number = round(share * len(particles))
        particles[-number:] = particles[:number]
        return particles

    def prepare(world: World) -> None:
        with_particles(change)(own(world)[0])
        study_of_files(world, ["background_0.h5"], ["a4l_0.h5"], **source)

    return prepare


def _missing(world: World) -> None:
    own(world)
    study_of_files(world, ["background_1.h5"], ["a4l_0.h5"])


TWICE = "twice|same|duplicate|repeat|alike|copy"
SAMPLES: tuple[tuple[str, Prepare, str], ...] = (
    ("a file that is not there", _missing, "background_1.h5"),
    ("a file twice", _twice, TWICE),
    ("a file and its copy", _byte_copy, TWICE),
    ("a file and a link to it", _symbolic_link, TWICE),
    ("a file and its events in another order", _rewritten_copy, TWICE),
    ("the background as signal", _signal_is_background, TWICE),
    ("20 background events in the signal's file", _overlap, "20"),
    ("10 % of the events twice", repeated(0.1), TWICE),
)
SAMPLES_WARNED: tuple[tuple[str, Prepare, str], ...] = (
    ("0.5 % of the events twice", repeated(0.005), f"({TWICE})"),
    ("10 % of the events twice, allowed", repeated(0.1, duplicates="allowed"), f"({TWICE})"),
)


ESCAPES = json.dumps(["\x1b[31mw\x1b[0m", "z", "qcd", "ttbar", "lq", "a4l", "h0", "hpm"])


def event_files() -> Iterator[Fault]:
    """Yield event files that are not what they seem, as background of a study and as observed file."""
    for name, change, says in FOREIGN:
        yield Fault(f"background file: {name}", RUN, says, prepare=background(change))
        yield Fault(f"observed file: {name}", TEST, says, prepare=observed(change))
    inspect = ("inspect", "{observed}")
    coloured = observed(_attribute("process_names", ESCAPES))
    yield Fault("observed file: terminal codes in names", inspect, r"^(?!.*\x1b\[31m).*31m", 0, coloured)
    against = ("inspect", "{run}", "--against", "{observed}")
    yield Fault("observed file: pt in MeV, inspect", against, "warning.*pt", 0, observed(_scaled(0, 1e3)))
    yield Fault("inspect cuts nothing unasked", inspect, r"^(?!.*jet >= 23)", 0)
    for name, prepare, says in SAMPLES:
        yield Fault(f"samples: {name}", RUN, says, prepare=prepare)
    for name, prepare, says in SAMPLES_WARNED:
        yield Fault(f"samples: {name}", RUN, says, code=0, prepare=prepare)
    for name, change, says in BACKGROUND_ONLY:
        yield Fault(f"background file: {name}", RUN, says, prepare=background(change))
    for name, change, says in OBSERVED_REFUSED:
        yield Fault(f"observed file: {name}", TEST, says, prepare=observed(change))
    for name, change, says in OBSERVED_WARNED:
        yield Fault(f"observed file: {name}", TEST, f"warning: .*({says})", code=0, prepare=observed(change))
