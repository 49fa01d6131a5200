"""Compute what is missing of the requested toys, on whatever workers there are, block by block."""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import FrameType

from covad.storage.versions import Versions, told_differences
from covad.toys.backends.local import BlockResult
from covad.toys.drawing import pool_offset
from covad.toys.ensembles import Block, Request, Shard
from covad.toys.progress import toy_progress
from covad.toys.store import ToyStore

log = logging.getLogger(__name__)

#: Takes blocks, yields their toys as they are finished: `results` of LocalWorkers or DaskWorkers.
Backend = Callable[[Iterable[Block]], Generator[BlockResult, None, None]]


class RunStopped(KeyboardInterrupt):
    """The run was asked to stop. Everything stored so far is complete."""

    def __init__(self, signal_number: int) -> None:
        self.signal = signal.Signals(signal_number)
        super().__init__(f"stopped by {self.signal.name}; the same command goes on from here")

    @property
    def exit_code(self) -> int:
        return 128 + self.signal


@contextmanager
def stoppable() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM raise `RunStopped` while the block lasts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        raise RunStopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class ToysComputed:
    """How many toys a run computed."""

    computed: int
    failed: int
    corrupt: int  # blocks that were set aside


def run_toys(
    requests: Sequence[Request], store: ToyStore, backend: Backend, shard: Shard | None = None
) -> ToysComputed:
    """Bring the requests to their number of toys; what is stored already is not computed again."""
    for request in requests:
        request.ensemble.source.check(request.ensemble.draw)
    _warn_of_pool_offsets(requests)
    store.sweep()
    corrupt = store.set_corrupt_aside(requests)
    asked = list((shard or Shard()).blocks(requests))
    left = store.missing(asked)
    to_do = sum(len(block) for block in left)
    log.debug(
        "stage toys: %d stored toys are kept, %d are to be computed", sum(map(len, asked)) - to_do, to_do
    )
    computed = failed = 0
    if not left:
        return ToysComputed(computed, failed, len(corrupt))
    known, seen = store.versions(requests), set[Versions]()
    with (
        toy_progress(sum(len(block) for block in left)) as progress,
        closing(backend(block for block in left if not store.has(block))) as results,
    ):
        for block, found in results:
            if found.versions not in seen:  # known by now only: workers elsewhere may have others than we
                _warn_of_versions(known, found.versions)
                seen.add(found.versions)
            store.add(block, found)
            known[found.versions] += len(found.toys)
            failures = sum(toy.failed for toy in found.toys)
            progress.advance(len(found.toys), failures)
            computed, failed = computed + len(found.toys), failed + failures
    return ToysComputed(computed, failed, len(corrupt))


def _warn_of_versions(known: Counter[Versions], now: Versions) -> None:
    """Say that toys are added to others that another version made: a test may see the difference."""
    if told := told_differences(known, now):
        others = sum(number for versions, number in known.items() if versions != now)
        log.warning(
            "%d toys here were made with %s: the same toys to the last bit are not promised",
            others,
            told,
        )


def _warn_of_pool_offsets(requests: Sequence[Request]) -> None:
    offsets = [pool_offset(request.ensemble) for request in requests]
    beyond = [offset for offset in offsets if not offset.tolerable]
    if beyond:
        worst = max(beyond, key=lambda offset: offset.share)
        log.warning(
            "toys share finite pools: their mean t is off by about +-%.2g, %.2g standard deviations of the "
            "null (%d of %d ensembles)",
            worst.t,
            worst.share,
            len(beyond),
            len(offsets),
        )
