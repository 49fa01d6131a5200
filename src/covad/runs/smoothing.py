"""How the signed weights of pools were smoothed, and what that left of their sums: smoothing.json."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from covad.messages import counted
from covad.runs.directory import SMOOTHING
from covad.settings import Nu
from covad.storage.json_files import read_json
from covad.storage.ledger import Product
from covad.storage.records import Record, restore
from covad.toys.drawing import TOLERATED_OFFSET
from covad.toys.truths import nu_text

#: p of a closure below which a difference is no chance.
_BEYOND_DOUBT = 1e-4


@dataclass(frozen=True)
class ClosureCheck(Record):
    """Sums over functions that the smoothing did not know, by signed and by smoothed weights."""

    functions: int
    largest_pull: float
    chi2: float
    dof: int
    p: float


@dataclass(frozen=True)
class SmoothedPool(Record):
    """One pool at one nu: `effective` events by smoothed weights, `effective_signed` by those before.

    Of the `columns` that tests see, `unmatched` have sums that are off by more than a tenth of their error;
    `largest_residual` is in units of that error. `moves` is what the difference of both weights adds to a
    chi2 over cells in data of the expected size, without its own noise; below zero by chance if it is none.
    """

    pool: str
    nu: Nu
    events: int
    negative_share: float
    effective: float
    effective_signed: float
    columns: int
    unmatched: int
    largest_residual: float
    bumps: ClosureCheck
    cells: ClosureCheck
    moves: float

    @property
    def doubtful(self) -> bool:
        """Return whether the difference in cells is beyond doubt, and large enough to matter."""
        matters = self.moves > TOLERATED_OFFSET * math.sqrt(2.0 * self.cells.functions)
        return matters and self.cells.p < _BEYOND_DOUBT


@dataclass(frozen=True)
class SmoothedPools(Record):
    """All pools of a space that had negative weights."""

    pools: tuple[SmoothedPool, ...]


def smoothing_line(pools: Sequence[SmoothedPool]) -> str:
    """Tell in one line how many pools of a space were smoothed, and how well."""
    checks = [check for pool in pools for check in (pool.bumps, pool.cells) if check.dof]
    closure = "closure: nothing was left to check"
    if checks:
        smallest = min(check.p for check in checks)
        closure = f"closure: smallest p {smallest:.2g} of {counted(len(checks), 'check')}"
    residual = max(pool.largest_residual for pool in pools)
    return (
        f"negative weights of {counted(len(pools), 'pool')} smoothed; sums that tests see are off by at most "
        f"{residual:.2g} of their errors; {closure}"
    )


def smoothing_doubt(pools: Sequence[SmoothedPool], names: Sequence[str]) -> str | None:
    """Say in which pools smoothed weights do not stand for the signed ones; None if they do in all.

    `names` are those of the nuisances.
    """
    doubtful = [pool for pool in pools if pool.doubtful]
    if not doubtful:
        return None
    worst = max(doubtful, key=lambda pool: pool.moves)
    return (
        f"smoothed weights differ from signed ones in {len(doubtful)} of {len(pools)} pools, most in "
        f"'{worst.pool}' at {nu_text(worst.nu, names)}: by chi2 {worst.cells.chi2:.0f} / {worst.cells.dof} "
        f"in cells, which adds {worst.moves:.2g} to that of data; a test that sees such detail is off, the "
        "convex one is not: raise tests.convex.bumps"
    )


def read_smoothing(pools: Product) -> tuple[SmoothedPool, ...]:
    """Return how the pools of a space were smoothed; nothing where no weight was negative. It is verified.

    Pools that are not made yet, or not whole, have nothing to tell.
    """
    path: Path = pools.path / SMOOTHING
    if not pools.made or not path.exists():
        return ()
    pools.verified(f"{pools.name}/{SMOOTHING}")
    return restore(SmoothedPools, read_json(path), str(path)).pools
