"""Damaged HDF5 files that crash or block the HDF5 library itself: covad survives them."""

import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from event_files import write_events
from samples import weighted_events

from covad.errors import FileFormatError
from covad.events import probe as probing
from covad.events.files import EventWriter, open_events
from covad.events.layout import Events
from covad.events.probe import probe


@pytest.fixture
def crashing(tmp_path: Path, events: Events) -> Path:
    """Text of variable length, which one flipped byte makes neither text nor a sequence."""
    path = write_events(tmp_path / "crash.h5", events)
    content = path.read_bytes()
    text_type = b"process_names\x00\x00\x00\x19\x01"
    assert content.count(text_type) == 1
    path.write_bytes(content.replace(text_type, text_type[:-1] + b"\x02"))
    return path


@pytest.fixture
def endless(tmp_path: Path, events: Events) -> Path:
    """A text in HDF5's heap that claims to be longer than it is."""
    path = write_events(tmp_path / "endless.h5", events)
    content = bytearray(path.read_bytes())
    place = content.index(b'["w", "qcd"]')
    assert content[place - 8 : place] == (12).to_bytes(8, "little")
    content[place - 8] = 223
    path.write_bytes(content)
    return path


def test_the_library_itself_does_crash(crashing: Path) -> None:
    """If it survives one day, the probe has nothing to do here."""
    code = "import sys; from covad.events.probe import read_to_the_end; read_to_the_end(sys.argv[1])"
    assert subprocess.run([sys.executable, "-c", code, str(crashing)], check=False).returncode < 0


def test_a_file_that_crashes_the_library_is_one_sentence(crashing: Path) -> None:
    said = "cannot be read, it crashes the HDF5 library .SIGSEGV.: it is damaged"
    with pytest.raises(FileFormatError, match=rf"^{crashing}: {said}"):
        open_events(crashing, foreign=True)


def test_a_file_that_the_library_never_finishes_is_one_sentence(endless: Path) -> None:
    with pytest.raises(FileFormatError, match=rf"^{endless}: cannot be read, nothing came out of it for 2 s"):
        probe(endless, patience_seconds=2.0)


def test_the_command_line_survives(crashing: Path) -> None:
    command = [sys.executable, "-m", "covad", "inspect", str(crashing)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"covad: {crashing}: cannot be read, it crashes the HDF5 library")
    assert len(result.stderr.splitlines()) == 1


def test_a_whole_file_is_probed_once(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def popen(*arguments: Any, **options: Any) -> Any:
        started.append(arguments)
        return real(*arguments, **options)

    real = subprocess.Popen
    monkeypatch.setattr(probing.subprocess, "Popen", popen)
    path = write_events(tmp_path / "whole.h5", events)
    for _ in range(2):
        probe(path)
    assert len(started) == 1
    time.sleep(0.01)
    path.touch()
    probe(path)
    assert len(started) == 2


def test_without_another_process_the_file_is_read_as_it_is(
    tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing.sys, "executable", "/nonexistent")
    with open_events(write_events(tmp_path / "whole.h5", events), foreign=True) as source:
        assert len(source.read()) == len(events)


def test_every_byte_of_the_numbers_is_read(tmp_path: Path, events: Events) -> None:
    """Content that covad refuses early does not spare the rest of the file the probe."""
    path = write_events(tmp_path / "events.h5", events)
    with probing.Hdf5Events(path) as source:
        pieces = [raw.shape for raw in source.raw_pieces()]
    assert pieces == [(len(events), 19, 4), (len(events),)]


def test_weights_and_varied_objects_are_read_too(tmp_path: Path) -> None:
    events = weighted_events(20, seed=1)
    path = tmp_path / "events.h5"
    names = {"weighted": True, "variations": tuple(events.variations), "varied": ("up",)}
    with EventWriter(path, events.layout, events.process_names, **names) as writer:
        writer.append(events, {"up": events.particles})
    with probing.Hdf5Events(path) as source:
        pieces = [raw.shape for raw in source.raw_pieces()]
    assert pieces == [(20, 19, 4), *[(20,)] * 4, (20, 19, 4)]


def test_a_slow_start_is_not_the_fault_of_the_file(
    tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_READER", f"import time; time.sleep(2.5)\n{probing._READER}")
    probe(write_events(tmp_path / "whole.h5", events), patience_seconds=2.0)


def test_a_large_file_may_take_longer() -> None:
    assert probing.patience_for(0) == 30.0
    assert probing.patience_for(10**10) > 1000.0


def test_many_open_files_do_not_keep_a_file_from_being_read(tmp_path, events):
    """Pools that are mapped hold descriptors by the hundred; `select` takes none from 1024 on."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    path = write_events(tmp_path / "many.h5", events)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1100):
            stack.enter_context(path.open("rb"))
        probe(path)
