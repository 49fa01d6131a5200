"""Whole runs from the command line that are killed, stopped, doubled and starved end in the same toys as one
that is left alone.
"""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_world import results

from covad.runs.directory import RunDirectory
from covad.runs.sources import open_sources
from covad.study.plan import plan, requests
from covad.toys.ensembles import BLOCK

STUDY = """\
seed: 3
source: {kind: latent, nuisances: 1}
sizes: {expected: 400, reference: 2000}
tests: {convex: {bumps: 10}}
nu: [0, 1]
nu_norm: []
prior: false
toys: 150
"""


def command(study, out, *options):
    return [str(Path(sys.executable).with_name("covad")), "run", str(study), "--out", str(out), *options]


def covad(study, out, *options):
    return subprocess.run(command(study, out, *options), capture_output=True, text=True, timeout=300)


def table(out):
    """All toys of a run, without the time they took."""
    directory = RunDirectory(Path(out))
    study = directory.study()
    wanted = requests(plan(study, open_sources(study, directory), {}))
    return [results(directory.toys.load(request).toys) for request in wanted]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "study.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def left_alone(study, tmp_path_factory):
    """The table of a run that nothing happened to."""
    out = tmp_path_factory.mktemp("left_alone")
    assert covad(study, out, "--workers", "1").returncode == 0
    toys = table(out)
    assert [len(ensemble) for ensemble in toys] == [150, 150]
    return toys


def wait_for_blocks(out, process, number=1, seconds=120):
    """Until the run has stored some blocks."""
    end = time.monotonic() + seconds
    while len(list((out / "toys").glob("*.parquet"))) < number:
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def kill_at_random_moments(study, out, times, seed):
    rng = random.Random(seed)
    for _ in range(times):
        already = len(list((out / "toys").glob("*.parquet")))
        process = subprocess.Popen(command(study, out, "--workers", "2"), stderr=subprocess.PIPE)
        if already < 28:  # of 30: as long as there is something to interrupt
            wait_for_blocks(out, process, already + 1)
            time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        process.communicate()


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_nine_then_resume(study, left_alone, tmp_path, times):
    kill_at_random_moments(study, tmp_path, times, seed=1)
    assert covad(study, tmp_path, "--workers", "2").returncode == 0
    assert table(tmp_path) == left_alone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on(study, left_alone, tmp_path, number):
    process = subprocess.Popen(command(study, tmp_path, "--workers", "1"), stderr=subprocess.PIPE, text=True)
    wait_for_blocks(tmp_path, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    *progress, last = said.splitlines()
    assert last == f"covad: stopped by {number.name}; the same command goes on from here"
    assert all(line.startswith("covad: stage ") for line in progress)
    assert list((tmp_path / "toys").glob(".*")) == []
    assert covad(study, tmp_path, "--workers", "1").returncode == 0
    assert table(tmp_path) == left_alone


def test_two_runs_at_once(study, left_alone, tmp_path):
    first = subprocess.Popen(command(study, tmp_path, "--workers", "1"))
    wait_for_blocks(tmp_path, first)
    first.send_signal(signal.SIGSTOP)  # it is not done before the second one starts
    second = covad(study, tmp_path, "--workers", "1")
    first.send_signal(signal.SIGCONT)
    assert (first.wait(timeout=300), second.returncode) == (0, 0)
    said = f"covad: another process (pid {first.pid} of "
    assert [line.startswith(said) for line in second.stderr.splitlines()].count(True) == 1
    assert "computes toys here: work may be done twice" in second.stderr
    assert table(tmp_path) == left_alone
    names = [path.name for path in (tmp_path / "toys").glob("*.parquet")]
    assert len(names) == 2 * 150 // BLOCK
    assert not list((tmp_path / "toys").glob(".*"))


def runs(pid):
    """Whether a process is there and not merely waiting to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_do_not_outlive_a_killed_run(study, tmp_path):
    process = subprocess.Popen(command(study, tmp_path, "--workers", "1"))
    wait_for_blocks(tmp_path, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.wait()
    end = time.monotonic() + 120
    while any(runs(child) for child in children):
        assert time.monotonic() < end
        time.sleep(0.05)


def can_mount():
    return bool(shutil.which("unshare")) and subprocess.run(["unshare", "-rm", "true"]).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="needs private mount namespaces")


def on_a_small_disk(script, tmp_path):
    """Run a shell script where $DISK is a file system of our own, in a private mount namespace."""
    disk = tmp_path / "disk"
    disk.mkdir()
    whole = f"set -u; DISK={disk}; {script}"
    return subprocess.run(
        ["unshare", "-rm", "bash", "-c", whole], capture_output=True, text=True, timeout=300
    )


@needs_mount
def test_a_full_disk_is_one_sentence_and_can_be_mended(study, left_alone, tmp_path):
    run = " ".join(command(study, "$DISK/run", "--workers", "1"))
    result = on_a_small_disk(
        f"""
        mount -t tmpfs -o size=96k none $DISK
        {run}; echo "full: $?"
        find $DISK -name '.*.part'
        mount -o remount,size=8m $DISK
        {run}; echo "more: $?"
        cp -r $DISK/run {tmp_path}/copy
        """,
        tmp_path,
    )
    assert "full: 2" in result.stdout
    assert "more: 0" in result.stdout
    assert ".part" not in result.stdout
    assert "cannot be written (No space left on device)" in result.stderr
    assert "Traceback" not in result.stderr
    assert table(tmp_path / "copy") == left_alone


@needs_mount
@pytest.mark.parametrize("begun", [True, False])
def test_a_read_only_directory_is_one_sentence(study, tmp_path, begun):
    run = " ".join(command(study, "$DISK/run", "--workers", "1"))
    result = on_a_small_disk(
        f"""
        mount -t tmpfs -o size=8m none $DISK
        {"true" if not begun else run + " --until tune 2>/dev/null"}
        mount -o remount,ro $DISK
        {run}; echo "read-only: $?"
        """,
        tmp_path,
    )
    assert "read-only: 2" in result.stdout
    assert "cannot be written (Read-only file system)" in result.stderr
    assert len(result.stderr.splitlines()) == 1
