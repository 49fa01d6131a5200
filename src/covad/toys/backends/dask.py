"""The same blocks on a Dask cluster: one that is running, or one that a batch system starts for us."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import islice
from typing import Any, Literal, Self

from pydantic import Field

from covad.errors import CovadError, MissingExtraError, WorkerError, extra_advice
from covad.settings import Settings, Size
from covad.toys.backends.local import BlockResult
from covad.toys.ensembles import Block
from covad.toys.toy import BlockToys, failed_block, run_block

CONNECT_SECONDS = 30
#: A scheduler that runs greets at once.
ANSWER_SECONDS = 10
#: Blocks that the scheduler holds at a time: more than there are workers, less than would burden it.
IN_FLIGHT = 2000


class BatchCluster(Settings):
    """Jobs of a batch system, each with `cores` workers; `options` go to dask-jobqueue as they are."""

    system: Literal["slurm", "htcondor"]
    jobs: Size
    cores: Size = 1
    memory: str = "2 GB"
    options: dict[str, Any] = Field(default_factory=dict)

    @contextmanager
    def started(self) -> Iterator[Any]:
        """Yield the dask-jobqueue cluster with its jobs submitted; they end with it."""
        with self.prepared() as cluster:
            cluster.scale(jobs=self.jobs)
            yield cluster

    def prepared(self) -> Any:
        """Return the dask-jobqueue cluster before any job is submitted."""
        try:
            import dask_jobqueue
        except ImportError as failure:
            raise MissingExtraError(
                f"a batch cluster needs the extra 'dask': {extra_advice('dask')}"
            ) from failure
        kind = getattr(dask_jobqueue, {"slurm": "SLURMCluster", "htcondor": "HTCondorCluster"}[self.system])
        # refuse strange options before dask-jobqueue does, half-way through its construction
        makers = (*kind.__mro__, *kind.job_cls.__mro__)
        known = {name for maker in makers for name in inspect.signature(maker.__init__).parameters}
        for name in self.options:
            if name not in known:
                raise WorkerError(f"cluster.options.{name}: {kind.__name__} has no such option: remove it")
        # any free port for the dashboard: login nodes are shared
        options = {"scheduler_options": {"dashboard_address": ":0"}} | self.options
        return kind(cores=self.cores, processes=self.cores, memory=self.memory, **options)


def _refuse_strangers(address: str) -> None:
    """Raise WorkerError if no Dask scheduler answers at an address.

    Dask itself believes whoever answers: a web server keeps it waiting, and the greeting of another service
    makes it ask for exabytes of memory.
    """
    try:
        from distributed.comm.core import connect
        from distributed.security import Security
    except ImportError as failure:
        raise MissingExtraError(f"--dask needs the extra 'dask': {extra_advice('dask')}") from failure

    async def shake_hands() -> None:
        options = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        greeting = connect(address, timeout=ANSWER_SECONDS, **options)  # type: ignore[no-untyped-call]
        comm = await asyncio.wait_for(greeting, ANSWER_SECONDS)
        comm.abort()

    with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop of its own
        try:
            thread.submit(lambda: asyncio.run(shake_hands())).result()
        except Exception as failure:
            raise WorkerError(f"no Dask scheduler answers at '{address}': is the address right?") from failure


class DaskWorkers:
    """Workers of a scheduler or of a batch system, from their first use until the context ends.

    An address where no scheduler answers is refused when the context begins, before any work is done.
    """

    def __init__(self, target: str | BatchCluster) -> None:
        self._target = target
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if isinstance(self._target, str):
            _refuse_strangers(self._target)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def _client(self) -> Any:
        try:
            from distributed import Client
        except ImportError as failure:
            raise MissingExtraError(f"--dask needs the extra 'dask': {extra_advice('dask')}") from failure
        target = self._target
        where = target if isinstance(target, str) else self._stack.enter_context(target.started())
        try:
            client = Client(where, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
        except Exception as failure:  # whatever came over the wire
            raise WorkerError(
                f"no Dask scheduler answers at {where} ({failure}): start one there"
            ) from failure
        return self._stack.enter_context(client)

    def results(self, blocks: Iterable[Block]) -> Generator[BlockResult, None, None]:
        """Yield the toys of every block as they are finished.

        Dask gives the block of a dead worker to another, a few times.
        """
        client = self._client
        from distributed import KilledWorker, as_completed

        waiting = iter(blocks)
        futures = {client.submit(run_block, block, pure=False): block for block in islice(waiting, IN_FLIGHT)}
        finished = as_completed(list(futures))  # type: ignore[no-untyped-call]
        for future in finished:
            block = futures.pop(future)
            for following in islice(waiting, 1):
                another = client.submit(run_block, following, pure=False)
                futures[another] = following
                finished.add(another)  # type: ignore[no-untyped-call]
            try:
                toys = future.result()
            except KilledWorker:
                toys = failed_block(block, "too many Dask workers died computing this block")
            except CovadError:
                raise
            except Exception as failure:
                raise WorkerError(
                    f"a Dask worker could not compute toys: {type(failure).__name__}: {failure}"
                ) from failure
            if not isinstance(toys, BlockToys):
                raise WorkerError(
                    "Dask workers need the covad of this process: theirs is another version, install the "
                    "same one there"
                )
            yield block, toys
            future.release()
