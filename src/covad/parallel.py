"""Processes on this machine: one thread each, and none outlives the process that started it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar, cast

from covad.errors import CovadError, WorkerError
from covad.messages import LOG, hide_library_warnings, show_messages

_Result = TypeVar("_Result")

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def cores() -> int:
    """Return the cores that this process may use, where the system tells (Linux); else all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread; they must know before they import numpy."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def in_one_thread(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Return what a function returns in a process of its own, whose libraries have one thread."""
    context = multiprocessing.get_context("spawn")
    with one_thread(), ProcessPoolExecutor(1, context, initializer=follow_parent) as pool:
        return pool.submit(function, *arguments).result()


def follow_parent() -> None:
    """Make this process a worker: it leaves Ctrl-C and library warnings to its parent, and ends with it."""
    hide_library_warnings()

    def leave_with_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=leave_with_parent, daemon=True).start()


def run_jobs(function: Callable[..., None], jobs: Sequence[tuple[Any, ...]], workers: int) -> None:
    """Call `function(*job)` for every job, at most `workers` at once, each in a process of its own.

    Results are files. The first failure ends all others; what they have stored stays.
    """
    context = multiprocessing.get_context("spawn")
    level = LOG.getEffectiveLevel()
    waiting = deque(jobs)
    running: dict[Connection, SpawnProcess] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                ours, theirs = context.Pipe(duplex=False)
                arguments = (function, waiting.popleft(), theirs, level)
                process = context.Process(target=_work, args=arguments, daemon=True)
                with one_thread():
                    process.start()
                theirs.close()
                running[ours] = process
            for ready in wait(list(running)):
                connection = cast("Connection", ready)
                process = running.pop(connection)
                try:
                    failure = connection.recv()
                except (EOFError, OSError):
                    process.join()
                    failure = WorkerError(
                        f"a worker process died (exit code {process.exitcode}): run again, with fewer "
                        "--workers if memory is short"
                    )
                finally:
                    connection.close()
                process.join()
                if failure is not None:
                    raise failure
    finally:
        for process in running.values():
            process.kill()
            process.join()


def in_order(
    function: Callable[..., _Result], jobs: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[_Result]:
    """Yield `function(*job)` for every job, in their order, by `workers` processes ahead of the caller.

    At most one result more than there are workers is computed or waits for the caller: results may be large.
    One worker is this very process.
    """
    if workers <= 1:
        yield from (function(*job) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    level = LOG.getEffectiveLevel()
    waiting = iter(jobs)
    running: deque[Future[_Result]] = deque()
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(level,))
    try:
        while True:
            with one_thread():
                for job in islice(waiting, workers + 1 - len(running)):
                    running.append(pool.submit(function, *job))
            if not running:
                return
            yield running.popleft().result()
    except BrokenProcessPool as failure:
        raise WorkerError(
            "a worker process died: run again, with fewer --workers if memory is short"
        ) from failure
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(level: int) -> None:
    follow_parent()
    show_messages(level)


def _work(function: Callable[..., None], job: tuple[Any, ...], connection: Connection, level: int) -> None:
    """Do one job in a process of its own, and send None or what went wrong."""
    follow_parent()
    show_messages(level)
    try:
        function(*job)
    except CovadError as failure:
        connection.send(failure)
    except (Exception, SystemExit) as failure:  # a job that ends its process is no success
        connection.send(WorkerError(f"{function.__name__} failed: {type(failure).__name__}: {failure}"))
    else:
        connection.send(None)
