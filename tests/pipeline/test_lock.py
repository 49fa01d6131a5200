"""Several processes on one run directory: one learns at a time, and the dead keep nobody waiting."""

import json
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from covad.errors import RunInUseError
from covad.pipeline import lock
from covad.pipeline.lock import LEARNING, Owner, announced_toys, learning_lock
from covad.runs.directory import RunDirectory
from covad.storage.records import plain
from covad.toys.ensembles import Shard

STUDY = """\
seed: 3
source: {kind: latent, nuisances: 1}
sizes: {expected: 400, reference: 2000}
tests: {network: {clip: tune}}
nu_norm: []
prior: false
toys: 2000
"""


def command(folder, *options):
    covad = Path(sys.executable).with_name("covad")
    return [str(covad), "run", str(folder / "study.yaml"), "--out", str(folder / "run"), *options]


def wait_for(path, process):
    end = time.monotonic() + 60
    while not list(path.parent.glob(path.name)):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "run").mkdir()
    return tmp_path


def leave(path, **changes):
    """Put a lock there as a process leaves it that differs from this one."""
    path.write_text(json.dumps(plain(replace(Owner.here(Shard()), **changes))))


def test_a_second_run_is_refused_while_one_learns_and_goes_on_once_it_was_killed(folder):
    """The first one is a zombie when the third one starts: nobody has asked after it yet."""
    first = subprocess.Popen(command(folder, "--workers", "1"), stderr=subprocess.PIPE)
    try:
        wait_for(folder / "run" / LEARNING, first)
        second = subprocess.run(command(folder, "--workers", "1"), capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert second.stderr.startswith(
            f"covad: {folder / 'run'}: another process is in the learning stages here (pid {first.pid} of "
        )
        assert second.stderr.count("\n") == 1
        assert (folder / "run" / LEARNING).exists()
        first.kill()
        third = subprocess.run(
            command(folder, "--until", "events"), capture_output=True, text=True, timeout=60
        )
        assert (third.returncode, third.stdout, third.stderr) == (0, "", "")
        assert not (folder / "run" / LEARNING).exists()
    finally:
        first.kill()
        first.communicate()


def test_the_pid_of_a_dead_owner_may_be_that_of_another_process(folder):
    path = folder / "run" / LEARNING
    leave(path, started=Owner.here(Shard()).started + 1)
    with learning_lock(RunDirectory(folder / "run")):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists()
    leave(path)
    with pytest.raises(RunInUseError, match=r"let it end$"), learning_lock(RunDirectory(folder / "run")):
        pass


def test_a_lock_from_elsewhere_holds_as_long_as_it_gives_signs_of_life(folder):
    path = folder / "run" / LEARNING
    leave(path, machine="another boot", host="node17", pid=1)
    sentence = rf"pid 1 of .* on node17, .* or delete \S+/{LEARNING} if that job is dead"
    with pytest.raises(RunInUseError, match=sentence), learning_lock(RunDirectory(folder / "run")):
        pass
    long_ago = time.time() - lock.SILENT_SECONDS - 10
    os.utime(path, (long_ago, long_ago))
    with learning_lock(RunDirectory(folder / "run")):
        assert json.loads(path.read_text())["host"] != "node17"


def test_signs_of_life_are_given(folder, monkeypatch):
    monkeypatch.setattr(lock, "SIGN_OF_LIFE_SECONDS", 0.01)
    path = folder / "run" / LEARNING
    with learning_lock(RunDirectory(folder / "run")):
        os.utime(path, (0, 0))
        end = time.monotonic() + 30
        while path.stat().st_mtime == 0:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_lock_that_another_process_took_over_stays_its(folder):
    path = folder / "run" / LEARNING
    with learning_lock(RunDirectory(folder / "run")):
        leave(path, machine="another boot")
        theirs = path.read_text()
    assert path.read_text() == theirs


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 3}'])
def test_a_spoilt_lock_holds_for_a_while(folder, content):
    path = folder / "run" / LEARNING
    path.write_text(content)
    with (
        pytest.raises(RunInUseError, match=rf"cannot be read.* delete \S+/{LEARNING}"),
        learning_lock(RunDirectory(folder / "run")),
    ):
        pass
    os.utime(path, (0, 0))
    with learning_lock(RunDirectory(folder / "run")):
        pass


def _compete(path, rounds, without_flock, without_links):
    """Enter again and again; every second time die inside, that is: leave without a word."""

    def refuse(*_):
        raise OSError("not here")

    if without_flock:
        lock.fcntl.flock = refuse
    if without_links:
        os.link = refuse
    inside, entered = path / "inside", 0
    while entered < rounds:
        try:
            with learning_lock(RunDirectory(path)):
                descriptor = os.open(inside, os.O_CREAT | os.O_EXCL)
                os.close(descriptor)
                inside.unlink()
                entered += 1
                (path / f"{os.getpid()}.entered").write_text(str(entered))
                if entered == rounds:
                    os._exit(0)  # the next one finds a lock of a dead process
        except RunInUseError:
            time.sleep(0.001)


@pytest.mark.parametrize(("without_flock", "without_links"), [(False, False), (True, False), (False, True)])
def test_of_many_starters_one_gets_in(folder, without_flock, without_links):
    context = multiprocessing.get_context("fork")
    leave(folder / "run" / LEARNING, pid=2**22 + 1)
    arguments = (folder / "run", 25, without_flock, without_links)
    crowd = [context.Process(target=_compete, args=arguments) for _ in range(2 if without_flock else 6)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(60)
    assert [process.exitcode for process in crowd] == [0] * len(crowd)
    assert {path.read_text() for path in (folder / "run").glob("*.entered")} == {"25"}


def test_who_computes_the_same_toys_is_told(folder, caplog):
    run = RunDirectory(folder / "run")

    def told(mine, theirs):
        caplog.clear()
        with (
            caplog.at_level(logging.WARNING, "covad"),
            announced_toys(run, theirs),
            announced_toys(run, mine),
        ):
            assert len(list(run.path.glob(lock.TOYS))) == 2
        assert list(run.path.glob(lock.TOYS)) == []
        return caplog.messages

    assert told(Shard(1, 4), Shard(2, 4)) == []
    assert told(Shard(1, 2), Shard(2, 4)) == []
    for mine, theirs in ((Shard(), Shard()), (Shard(), Shard(2, 4)), (Shard(1, 2), Shard(3, 4))):
        (sentence,) = told(mine, theirs)
        assert sentence.startswith(f"another process (pid {os.getpid()} of ")
        assert sentence.endswith(") computes toys here: work may be done twice")


def test_the_dead_compute_no_toys(folder, caplog):
    leave(folder / "run" / "toys.123.lock", pid=2**22 + 1)
    with announced_toys(RunDirectory(folder / "run"), Shard()):
        assert not (folder / "run" / "toys.123.lock").exists()
    assert caplog.messages == []
