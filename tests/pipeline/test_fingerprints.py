"""No event serves twice: files and events that are there twice are found before anything is learned."""

import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from event_files import write_events
from finished_run import TINY, tiny_study
from samples import random_events

from covad.errors import DuplicateEventsError, FileFormatError
from covad.events.layout import concatenate
from covad.pipeline import fingerprints as module
from covad.pipeline.events import note_digests
from covad.pipeline.fingerprints import refuse_copied_files, take_missing
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory


def collisions(run: Path, background: list[Path], signal: list[Path], **source) -> CollisionData:
    """The events stage of a study of files."""
    signals = {"new": {"files": signal}} if signal else {}
    content = TINY["source"] | {"background": {"files": background}, "signals": signals} | source
    study = tiny_study(source=content, signals={"new": [10]} if signal else {})
    (run / "events").mkdir(parents=True, exist_ok=True)
    return CollisionData.of(study, RunDirectory(run))


def check(data: CollisionData) -> None:
    note_digests(data)
    take_missing(data)


@pytest.fixture
def files(tmp_path):
    return [write_events(tmp_path / f"{n}.h5", random_events(1000, seed=n)) for n in range(3)]


def test_a_file_that_is_listed_twice_is_refused(files, tmp_path):
    for data in (
        collisions(tmp_path, [files[0], files[0]], []),
        collisions(tmp_path, [files[0]], [files[0]]),
    ):
        with pytest.raises(DuplicateEventsError, match=r"0\.h5: is listed twice"):
            refuse_copied_files(data)


def test_a_copy_or_a_link_under_another_name_is_refused(files, tmp_path):
    copy = Path(shutil.copy(files[0], tmp_path / "copy.h5"))
    with pytest.raises(DuplicateEventsError, match=r"copy\.h5: is a copy of .*0\.h5, in the sample"):
        refuse_copied_files(collisions(tmp_path, [*files, copy], []))
    os.link(files[1], tmp_path / "link.h5")
    with pytest.raises(DuplicateEventsError, match=r"link\.h5: is listed twice, in the samples"):
        refuse_copied_files(collisions(tmp_path, files, [tmp_path / "link.h5"]))
    refuse_copied_files(collisions(tmp_path, files[:2], files[2:]))


def test_fingerprints_are_taken_once_and_anew_if_damaged(files, tmp_path):
    data = collisions(tmp_path / "run", files[:2], files[2:])
    check(data)
    kept = tmp_path / "run" / "events" / "fingerprints" / "background.npy"
    found, state = data.fingerprints("background").copy(), kept.stat()
    assert len(found) == 2000
    check(data)
    assert kept.stat().st_mtime_ns == state.st_mtime_ns
    content = bytearray(kept.read_bytes())
    content[-3] ^= 1
    kept.write_bytes(content)
    check(data)
    assert np.array_equal(data.fingerprints("background"), found)


def test_samples_that_share_events_are_refused_with_counts(files, tmp_path):
    mixed = concatenate([random_events(1000, seed=2), random_events(1000, seed=0)[5:12]])
    signal = write_events(tmp_path / "signal.h5", mixed)
    data = collisions(tmp_path / "run", files[:2], [signal])
    with pytest.raises(
        DuplicateEventsError, match=r"'background' and 'new': 7 of the 2000 events.*duplicates to 'allowed'"
    ):
        check(data)


@pytest.mark.parametrize(
    ("n_copies", "outcome"), [(0, "silent"), (1, "silent"), (30, "told"), (150, "refused")]
)
def test_repeated_events_are_told_and_refused_by_their_share(tmp_path, caplog, n_copies, outcome):
    events = random_events(2000, seed=8)
    path = write_events(tmp_path / "sample.h5", concatenate([events, events[:n_copies]]))
    data = collisions(tmp_path / "run", [path], [])
    with caplog.at_level(logging.WARNING):
        if outcome == "refused":
            with pytest.raises(DuplicateEventsError, match=r"'background': 150 of 2150 events \(0.07\)"):
                check(data)
        else:
            check(data)
    assert ("30 of 2030 events (0.015) repeat another event" in caplog.text) == (outcome == "told")


def test_a_study_may_allow_duplicates(tmp_path, caplog):
    events = random_events(2000, seed=8)
    path = write_events(tmp_path / "sample.h5", concatenate([events, events[:500]]))
    signal = write_events(tmp_path / "signal.h5", events[100:300])
    with caplog.at_level(logging.WARNING):
        check(collisions(tmp_path / "run", [path], [signal], duplicates="allowed"))
    assert "500 of 2500 events (0.2) repeat another event" in caplog.text
    assert "of the 2500 events of 'background' are also in 'new'" in caplog.text


def test_labels_are_part_of_what_events_are(tmp_path):
    particles = random_events(200, seed=1).particles.astype("f8")
    with (tmp_path / "events.npz").open("wb") as file:
        np.savez(file, x_train=particles)

    def label(code):
        with (tmp_path / "labels.npz").open("wb") as file:
            np.savez(file, background_ID_train=np.full(200, code))

    label(0)
    data = collisions(tmp_path / "run", [tmp_path / "events.npz"], [])
    note_digests(data)
    before = data.products.fingerprints("background").recipe
    label(1)
    with pytest.raises(FileFormatError, match=r"events\.npz: its labels have changed"):
        note_digests(data)
    (tmp_path / "run" / "events.json").unlink()
    note_digests(data)
    assert data.products.fingerprints("background").recipe != before


def test_files_that_are_noted_are_not_read_for_copies(files, tmp_path, monkeypatch):
    shutil.copy(files[0], tmp_path / "copy.h5")
    content = bytearray((tmp_path / "copy.h5").read_bytes())
    content[-3] ^= 1
    (tmp_path / "copy.h5").write_bytes(content)
    data = collisions(tmp_path / "run", [files[0], tmp_path / "copy.h5"], [])
    note_digests(data)
    monkeypatch.setattr(module, "digest_once", lambda path: pytest.fail(f"{path} is read"))
    refuse_copied_files(data)
