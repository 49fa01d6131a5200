"""Worker processes on this machine, one thread each. A worker that dies costs the block it was computing."""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Self

from covad.errors import CovadError, WorkerError
from covad.parallel import follow_parent, one_thread
from covad.toys.ensembles import Block
from covad.toys.toy import BlockToys, failed_block, run_block

log = logging.getLogger(__name__)

#: A block that took this many workers with it is recorded as failed.
MAX_DEATHS = 3

BlockResult = tuple[Block, BlockToys]


def _serve(connection: Connection) -> None:
    """Compute blocks in a worker process until the parent closes the connection or is no more."""
    follow_parent()
    with suppress(EOFError, OSError):
        connection.send(None)  # all is imported
        while True:
            block = connection.recv()
            try:
                answer: BlockToys | CovadError = run_block(block)
            except CovadError as failure:
                answer = failure
            except Exception as failure:
                answer = WorkerError(f"a worker could not compute toys: {type(failure).__name__}: {failure}")
            connection.send(answer)


@dataclass
class _Worker:
    """A process and our end of its connection; `ready` once it has imported everything."""

    process: SpawnProcess
    connection: Connection
    ready: bool = False

    @classmethod
    def start(cls) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with one_thread():
            process.start()
        theirs.close()
        return cls(process, ours)

    def send(self, block: Block) -> None:
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
        """Yield the toys of every block as they are finished. A worker that dies is replaced.

        A worker gets its next block before the toys of the last one are yielded, so that it never waits for
        the caller. Workers whose blocks nobody waits for any more are ended.
        """
        waiting = iter(blocks)
        busy: dict[Connection, tuple[_Worker, Block]] = {}
        deaths: Counter[Block] = Counter()

        def start(some: Iterable[Block]) -> None:
            for block in some:
                worker = self._idle.pop() if self._idle else _Worker.start()
                worker.send(block)
                busy[worker.connection] = worker, block

        try:
            start(islice(waiting, self._number))
            while busy:
                for connection in wait(list(busy)):
                    worker, block = busy[connection]  # type: ignore[index]
                    try:
                        answer = worker.connection.recv()
                    except (EOFError, OSError):
                        del busy[worker.connection]
                        worker.kill()
                        deaths[block] += 1
                        code = worker.process.exitcode
                        if deaths[block] < MAX_DEATHS:
                            log.warning(
                                "a worker died (exit code %s): toys %s are computed again", code, block.label
                            )
                            start([block])
                            continue
                        if not worker.ready:
                            raise WorkerError(
                                f"worker processes die at their start (exit code {code}): `covad doctor` "
                                "tells more"
                            ) from None
                        answer = failed_block(
                            block, f"{MAX_DEATHS} workers died computing its block (exit code {code})"
                        )
                    else:
                        if answer is None:
                            worker.ready = True
                            continue
                        del busy[worker.connection]
                        self._idle.append(worker)
                        if isinstance(answer, CovadError):
                            raise answer
                    start(islice(waiting, 1))
                    yield block, answer
        finally:
            for worker, _ in busy.values():
                worker.kill()
