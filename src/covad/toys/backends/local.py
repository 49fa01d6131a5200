"""Worker processes on this machine, one thread each. A worker that dies costs the block it was computing."""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Self

from covad.errors import CovadError, WorkerError
from covad.parallel import follow_parent, one_thread
from covad.toys.ensembles import Block
from covad.toys.toy import Toy, failed_block, run_block

log = logging.getLogger(__name__)

#: A block that took this many workers with it is recorded as failed.
MAX_DEATHS = 3

BlockResult = tuple[Block, tuple[Toy, ...]]


def _serve(connection: Connection) -> None:
    """Life of a worker: blocks in, toys out, until the parent closes the connection or is no more."""
    follow_parent()
    try:
        connection.send(None)  # all is imported
        while True:
            connection.send(_answer(connection.recv()))
    except (EOFError, OSError):
        return


def _answer(block: Block) -> tuple[Toy, ...] | CovadError:
    try:
        return run_block(block)
    except CovadError as failure:
        return failure
    except Exception as failure:
        return WorkerError(f"a worker could not compute toys: {type(failure).__name__}: {failure}")


@dataclass
class _Worker:
    """A process, our end of its connection, and the block it has."""

    process: SpawnProcess
    connection: Connection
    block: Block
    ready: bool = False

    @classmethod
    def start(cls, block: Block) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with one_thread():
            process.start()
        theirs.close()
        worker = cls(process, ours, block)
        worker.send(block)
        return worker

    def send(self, block: Block) -> None:
        self.block = block
        with suppress(OSError):  # it is dead: the next `wait` will tell
            self.connection.send(block)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class LocalWorkers:
    """At most `number` worker processes; they stay between runs, until the context ends."""

    def __init__(self, number: int) -> None:
        if number < 1:
            raise WorkerError(f"at least one worker is needed, not {number}")
        self._number = number
        self._idle: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._idle:
            worker.kill()
        self._idle.clear()

    def results(self, blocks: Iterable[Block]) -> Generator[BlockResult, None, None]:
        """The toys of every block, in the order in which they are finished."""
        crew = _Crew(self._idle, iter(blocks))
        try:
            yield from crew.results(self._number)
        finally:
            crew.abandon()


class _Crew:
    """The workers that compute some blocks; one that dies is replaced."""

    def __init__(self, idle: list[_Worker], blocks: Iterator[Block]) -> None:
        self._idle, self._blocks = idle, blocks
        self._busy: dict[Connection, _Worker] = {}
        self._deaths: Counter[Block] = Counter()

    def results(self, number: int) -> Generator[BlockResult, None, None]:
        for block in islice(self._blocks, number):
            self._employ(block)
        while self._busy:
            for connection in wait(list(self._busy)):
                result = self._hear(self._busy[connection])  # type: ignore[index]
                if result is not None:
                    yield result

    def abandon(self) -> None:
        """End the workers whose blocks nobody waits for any more."""
        for worker in self._busy.values():
            worker.kill()
        self._busy.clear()

    def _employ(self, block: Block) -> None:
        if self._idle:
            worker = self._idle.pop()
            worker.send(block)
        else:
            worker = _Worker.start(block)
        self._busy[worker.connection] = worker

    def _hear(self, worker: _Worker) -> BlockResult | None:
        """Take what a worker has to say, and give it the next block before anything else is done."""
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        if answer is None:
            worker.ready = True
            return None
        finished = worker.block
        self._idle.append(self._busy.pop(worker.connection))
        if isinstance(answer, CovadError):
            raise answer
        self._continue()
        return finished, answer

    def _continue(self) -> None:
        for block in islice(self._blocks, 1):
            self._employ(block)

    def _bury(self, worker: _Worker) -> BlockResult | None:
        """Give the block of a dead worker to another, unless it has killed too many."""
        del self._busy[worker.connection]
        worker.kill()
        block, code = worker.block, worker.process.exitcode
        self._deaths[block] += 1
        if self._deaths[block] < MAX_DEATHS:
            log.warning("a worker died (exit code %s): toys %s are computed again", code, block.label)
            self._employ(block)
            return None
        if not worker.ready:
            raise WorkerError(f"worker processes die at their start (exit code {code})")
        self._continue()
        return block, failed_block(block, f"{MAX_DEATHS} workers died computing its block (exit code {code})")
