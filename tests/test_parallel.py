"""Jobs in processes of their own: real processes, a real kill -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from covad.errors import CovadError, StudyError, WorkerError
from covad.parallel import cores, in_one_thread, in_order, run_jobs


def test_cores_are_those_of_the_process_or_of_the_machine(monkeypatch):
    """Only Linux tells which cores a process may use."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    assert cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def note(folder: Path, name: str) -> None:
    (folder / name).write_text(os.environ["OMP_NUM_THREADS"])


def refuse(reason: str) -> None:
    raise StudyError(reason)


def stumble() -> None:
    raise ZeroDivisionError("by chance")


def leave() -> None:
    sys.exit(0)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail_or_wait(folder: Path, fails: bool) -> None:
    """Wait until the other has begun, then fail; or wait for ever."""
    (folder / f"{os.getpid()}.pid").touch()
    while len(list(folder.glob("*.pid"))) < 2:
        time.sleep(0.01)
    if fails:
        raise StudyError("enough")
    time.sleep(600)


def test_every_job_is_done_on_one_thread(tmp_path):
    run_jobs(note, [(tmp_path, str(n)) for n in range(3)], workers=2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {str(n): "1" for n in range(3)}


def test_no_jobs_are_no_work():
    run_jobs(note, [], workers=2)


@pytest.mark.parametrize(
    ("function", "job", "kind", "message"),
    [
        (refuse, ("no such thing",), StudyError, "no such thing"),
        (stumble, (), WorkerError, "stumble failed: ZeroDivisionError: by chance"),
        (leave, (), WorkerError, "leave failed: SystemExit: 0"),
        (die, (), WorkerError, "died .exit code -9"),
    ],
)
def test_a_failure_comes_back_as_a_sentence(function, job, kind, message):
    with pytest.raises(kind, match=message):
        run_jobs(function, [job], workers=1)


def test_the_first_failure_ends_the_others(tmp_path):
    with pytest.raises(CovadError, match="enough"):
        run_jobs(fail_or_wait, [(tmp_path, True), (tmp_path, False)], workers=2)
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.stem), 0)


def wait_for_ever(folder: Path) -> None:
    (folder / f"{os.getpid()}.pid").touch()
    time.sleep(600)


def test_nobody_outlives_the_parent(tmp_path):
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path; import test_parallel as t; from covad.parallel import run_jobs\n"
        f"if __name__ == '__main__': run_jobs(t.wait_for_ever, [(Path({str(tmp_path)!r}),)], 1)\n"
    )
    (tmp_path / "main.py").write_text(script)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "main.py")])
    deadline = time.monotonic() + 60
    while not (pids := list(tmp_path.glob("*.pid"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    child = int(pids[0].stem)
    while time.monotonic() < deadline:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the child is still there")


def double(number: int) -> tuple[int, int]:
    time.sleep(0.02 * (number % 2))  # so that they finish in another order
    return 2 * number, os.getpid()


def refuse_large(number: int) -> int:
    if number >= 3:
        raise StudyError(f"{number} is too large")
    return number


def die_at(number: int) -> int:
    if number == 1:
        die()
    return number


def test_results_come_in_the_order_of_the_jobs():
    jobs = [(number,) for number in range(9)]
    alone = list(in_order(double, jobs, workers=1))
    shared = list(in_order(double, jobs, workers=2))
    assert [value for value, _ in alone] == [value for value, _ in shared] == [2 * n for n in range(9)]
    assert {process for _, process in alone} == {os.getpid()}
    assert os.getpid() not in {process for _, process in shared}


def note_and_count(folder: Path, number: int) -> int:
    note(folder, str(number))
    return number


def test_few_results_wait_for_the_caller(tmp_path):
    """One more than there are workers, since results may be large."""
    results = in_order(note_and_count, [(tmp_path, number) for number in range(9)], workers=2)
    assert next(results) == 0
    deadline = time.monotonic() + 60
    while not (tmp_path / "2").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)  # for one that should not be there
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1", "2"}
    assert list(results) == list(range(1, 9))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_comes_after_the_results_before_it(workers):
    results = in_order(refuse_large, [(number,) for number in range(9)], workers)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(StudyError, match="3 is too large"):
        next(results)


def test_a_worker_that_dies_ends_the_work():
    with pytest.raises(WorkerError, match="a worker process died: run again, with fewer --workers"):
        list(in_order(die_at, [(number,) for number in range(4)], workers=2))


def test_what_is_timed_has_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert in_one_thread(os.getenv, "OMP_NUM_THREADS") == "1"
    assert os.environ["OMP_NUM_THREADS"] == "2"
