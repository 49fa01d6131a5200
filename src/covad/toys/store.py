"""Toys on disk: a directory of immutable blocks, and the directory is the truth.

A block is named by its ensemble and its range of toys and reaches its name whole or not at all. What does not
fit its digest is set aside, reported, and computed again; one of another schema is refused and left alone.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.storage.atomic import write_bytes, write_json, writing
from covad.storage.versions import Versions
from covad.toys.blocks import BlockFooter, decode, encode, read_footer, refuse_collisions, toy_table
from covad.toys.ensembles import Block, Request, contiguous
from covad.toys.toy import BlockToys, Toy

log = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<ensemble>[0-9a-f]{20})-(?P<start>\d{8,10})-(?P<stop>\d{8,10})\.parquet")
#: A temporary file of this age belongs to nobody who is still alive.
_ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Counts:
    """Where an ensemble stands: requested = done + failed + missing. Unconverged toys are among the done."""

    requested: int
    done: int
    failed: int
    missing: int
    unconverged: int
    reasons: dict[str, int]  # of the failures
    seconds: float  # CPU of the toys that are done or failed


@dataclass(frozen=True)
class EnsembleToys:
    """The stored toys of a request, in order of their index."""

    requested: int
    toys: tuple[Toy, ...]
    versions: tuple[Versions, ...]  # of each toy
    damaged: tuple[str, ...] = ()  # what is wrong with blocks that were left out

    @cached_property
    def done(self) -> tuple[Toy, ...]:
        return tuple(toy for toy in self.toys if not toy.failed)

    @property
    def failed(self) -> int:
        return len(self.toys) - len(self.done)

    @property
    def missing(self) -> int:
        return self.requested - len(self.toys)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one number, or tuple of numbers, for every toy that is done."""
        return np.array([getattr(toy, name) for toy in self.done], dtype=np.float64)

    @property
    def t(self) -> NDArray[np.float64]:
        """Return t of the toys that are done."""
        return self.column("t")

    def table(self) -> pa.Table:
        """Return all stored toys as an Arrow table, one row each; a failed toy has nulls and a reason."""
        return toy_table(self.toys)

    def t_by_index(self) -> NDArray[np.float64]:
        """Return t of all requested toys; NaN marks one that failed or is missing."""
        t = np.full(self.requested, np.nan)
        for toy in self.done:
            t[toy.index] = toy.t
        return t


@dataclass(frozen=True)
class _StoredBlock:
    """The file of a block, and what its name says."""

    path: Path
    ensemble: str
    start: int
    stop: int

    def toys(self) -> BlockToys:
        """Read the toys, checked against the digest and the name."""
        footer, toys = decode(self._content(), str(self.path))
        self._compare(footer)
        return toys

    def footer(self) -> BlockFooter:
        """Read the footer, checked against the name only."""
        footer = read_footer(self._content(), str(self.path))
        self._compare(footer)
        return footer

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as failure:  # gone, for instance: another run set it aside
            raise FileFormatError(f"{self.path}: cannot be read ({failure.strerror})") from failure

    def _compare(self, footer: BlockFooter) -> None:
        if (footer.ensemble, footer.start, footer.stop) != (self.ensemble, self.start, self.stop):
            raise FileFormatError(f"{self.path}: holds other toys than its name says")


@dataclass(frozen=True)
class ToyStore:
    """The blocks in one directory."""

    directory: Path

    def add(self, block: Block, toys: BlockToys) -> bool:
        """Store a block; False if it is there already, then the first one stays.

        Should two runs store the same block in the same instant, one complete file replaces another with the
        same toys.
        """
        if self.has(block):
            return False
        description = self.directory / f"{block.ensemble.identity}.json"
        if not description.exists():  # keep beside the blocks what they are
            write_json(description, block.ensemble.describe())
        path, content = self._path(block), encode(block.ensemble.identity, toys)
        write_bytes(path, content)
        return True

    def has(self, block: Block) -> bool:
        return self._path(block).exists()

    def missing(self, blocks: Sequence[Block]) -> list[Block]:
        """Return what of the blocks is still to be computed."""
        stored: dict[str, set[int]] = {}
        for there in self._blocks():
            stored.setdefault(there.ensemble, set()).update(range(there.start, there.stop))
        left = []
        for block in blocks:
            done = stored.get(block.ensemble.identity, set())
            indices = [index for index in range(block.start, block.stop) if index not in done]
            left += [Block(block.ensemble, start, stop) for start, stop in contiguous(indices)]
        return left

    def counts(self, requests: Sequence[Request]) -> list[Counts]:
        """Count where the requests stand, from the footers alone, in one pass over the directory."""
        footers: dict[str, list[BlockFooter]] = {request.ensemble.identity: [] for request in requests}
        for block in self._blocks():
            if block.ensemble in footers:
                with suppress(FileFormatError):  # its toys count as missing
                    footers[block.ensemble].append(block.footer())
        return [_count(footers[request.ensemble.identity], request.toys) for request in requests]

    def versions(self, requests: Sequence[Request] | None = None) -> Counter[Versions]:
        """Count the toys in the blocks of these requests, or in all, by the versions that computed them."""
        wanted = None if requests is None else {request.ensemble.identity for request in requests}
        found: Counter[Versions] = Counter()
        for block in self._blocks():
            if wanted is None or block.ensemble in wanted:
                with suppress(FileFormatError):
                    footer = block.footer()
                    found[footer.versions] += footer.stop - footer.start
        return found

    def load(self, request: Request) -> EnsembleToys:
        """Return the toys that are there; corrupt blocks are left out, as `missing` toys."""
        return self.load_all([request])[request.ensemble.identity]

    def load_all(self, requests: Sequence[Request]) -> dict[str, EnsembleToys]:
        """Return the toys of many requests, by identity, in one pass over the directory.

        A block that cannot be read is told in the log, and in `damaged`.
        """
        found: dict[str, dict[int, tuple[Toy, Versions]]] = {r.ensemble.identity: {} for r in requests}
        damaged: dict[str, list[str]] = {identity: [] for identity in found}
        for block in self._blocks():
            if block.ensemble in found:
                try:
                    stored = block.toys()
                except FileFormatError as failure:
                    damaged[block.ensemble].append(str(failure))
                    log.warning("%s: its toys are left out; run again, they are computed anew", failure)
                    continue
                for toy in stored.toys:
                    found[block.ensemble].setdefault(toy.index, (toy, stored.versions))
        loaded = {}
        for request in requests:
            mine = found[request.ensemble.identity]
            wanted = [mine[index] for index in sorted(mine) if index < request.toys]
            toys, versions = tuple(toy for toy, _ in wanted), tuple(of_toy for _, of_toy in wanted)
            refuse_collisions(toys)
            loaded[request.ensemble.identity] = EnsembleToys(
                request.toys, toys, versions, tuple(damaged[request.ensemble.identity])
            )
        return loaded

    def set_corrupt_aside(self, requests: Sequence[Request]) -> list[Path]:
        """Verify the blocks of these requests; move away, and log, what is not as it was written."""
        wanted = {request.ensemble.identity for request in requests}
        moved = []
        for block in self._blocks():
            if block.ensemble not in wanted:
                continue
            try:
                block.toys()
            except FileFormatError as failure:
                target = self.directory / "corrupt" / f"{block.path.name}.{time.time_ns()}"
                with writing(target):
                    target.parent.mkdir(exist_ok=True)
                    with suppress(FileNotFoundError):  # another run was faster
                        block.path.rename(target)
                moved.append(target)
                log.warning("%s; set aside as %s, its toys will be computed again", failure, target)
        return moved

    def corrupt(self) -> list[Path]:
        """Return the blocks that were set aside."""
        return sorted((self.directory / "corrupt").glob("*"))

    def sweep(self) -> None:
        """Remove temporary files that a killed run left behind."""
        for path in self.directory.glob(".*.part"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()

    def _path(self, block: Block) -> Path:
        return self.directory / f"{block.ensemble.identity}-{block.start:08d}-{block.stop:08d}.parquet"

    def _blocks(self) -> Iterator[_StoredBlock]:
        """Yield all blocks: by ensemble, then start, the longer first, so that overlaps end in one way."""
        blocks = []
        for path in self.directory.glob("*.parquet"):
            if parts := _NAME.fullmatch(path.name):
                blocks.append(_StoredBlock(path, parts["ensemble"], int(parts["start"]), int(parts["stop"])))
        yield from sorted(blocks, key=lambda block: (block.ensemble, block.start, -block.stop))


def _count(footers: Sequence[BlockFooter], requested: int) -> Counts:
    """Count the first `requested` toys; a toy of overlapping blocks counts once.

    A block that counts in part adds that share of its seconds.
    """
    seconds = 0.0
    stored: set[int] = set()
    failures: dict[int, str] = {}
    unconverged: set[int] = set()
    for footer in footers:
        fresh = set(range(footer.start, min(footer.stop, requested))) - stored
        failures |= {int(i): why for i, why in footer.failed.items() if int(i) in fresh}
        unconverged |= fresh.intersection(footer.unconverged)
        stored |= fresh
        seconds += footer.seconds * len(fresh) / (footer.stop - footer.start)
    return Counts(
        requested=requested,
        done=len(stored) - len(failures),
        failed=len(failures),
        missing=requested - len(stored),
        unconverged=len(unconverged),
        reasons=dict(Counter(failures.values())),
        seconds=seconds,
    )
