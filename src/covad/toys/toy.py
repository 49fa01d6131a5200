"""One pseudo-experiment: draw it, test it, and keep what came of it, failure included."""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from covad.errors import FileFormatError, PlanError
from covad.nplm.dataset import Dataset
from covad.nplm.fit import NplmTest, Status
from covad.nplm.likelihood import log_yield
from covad.nplm.statistic import Outcome, likelihood_ratio
from covad.storage.versions import Versions
from covad.toys.ensembles import Block, Ensemble, Source, TunedTest

#: Data and reference events by which two toys are recognised as the same.
_DIGEST_EVENTS = 1000
#: t is not negative, but a difference of sums over float32 columns can be, by less than this.
_ROUNDING_OF_T = 0.01


@dataclass(frozen=True)
class Toy:
    """What is stored of a toy. A failed one has a reason and no t, tau, Delta or fitted nuisances."""

    index: int
    seed: int  # 64 bits that stand for the seed
    events: int | None  # 64 bits of a digest of the first events: equal only if they are
    status: str
    reason: str = ""
    true_nu: tuple[float, ...] | None = None
    true_norm: float | None = None  # as nu_norm_delta, a log yield
    t: float | None = None
    tau: float | None = None
    delta: float | None = None
    nu_tau: tuple[float, ...] | None = None
    nu_delta: tuple[float, ...] | None = None
    nu_norm_tau: float | None = None
    nu_norm_delta: float | None = None
    log_yield: float | None = None  # of the fit without h, relative to nu = 0
    measured: tuple[float, ...] | None = None
    measured_norm: float | None = None
    n_data: int | None = None
    evaluations: int | None = None
    active_bounds: int | None = None
    seconds: float = 0.0  # CPU of the two fits
    draw_seconds: float = 0.0  # CPU of drawing

    @property
    def failed(self) -> bool:
        return self.status == Status.FAILED


@dataclass(frozen=True)
class BlockToys:
    """The toys of a block, and the versions in the process that computed them."""

    toys: tuple[Toy, ...]
    versions: Versions


def run_block(block: Block) -> BlockToys:
    """Compute the toys of a block. Only a dying process can keep it from returning all of them."""
    indices = range(block.start, block.stop)
    return BlockToys(tuple(run_toy(block.ensemble, index) for index in indices), Versions.here())


def failed_block(block: Block, reason: str) -> BlockToys:
    """Return the failed toys of a block that no worker survived."""
    ensemble = block.ensemble
    indices = range(block.start, block.stop)
    toys = tuple(Toy(i, ensemble.seeds(i).number, None, Status.FAILED, reason) for i in indices)
    return BlockToys(toys, Versions.here())


def run_toy(ensemble: Ensemble, index: int) -> Toy:
    """Draw and test toy `index`. What is raised becomes a failed toy with its reason: counted, not retried.

    A plan that cannot be drawn, or an unreadable pool, would fail every toy alike: that ends the run.
    """
    test = _build(ensemble.test, ensemble.source)
    seeds = ensemble.seeds(index)
    facts: dict[str, Any] = {"index": index, "seed": seeds.number, "events": None}
    clock = time.process_time()
    try:
        draw = ensemble.draw
        if draw.prior:
            draw = ensemble.source.throw(draw, seeds)
        facts |= {"true_nu": draw.nu, "true_norm": draw.true_norm}
        dataset = ensemble.source.draw(draw, seeds)
        facts["draw_seconds"] = time.process_time() - clock
        digest = hashlib.blake2b(digest_size=8)
        for events in (dataset.data, dataset.reference):
            digest.update(events[:_DIGEST_EVENTS].tobytes())
        facts["events"] = int.from_bytes(digest.digest(), "little")
        facts["n_data"] = len(dataset.data)
        facts["measured"] = tuple(float(x) for x in dataset.measured)
        facts["measured_norm"] = dataset.normalisation.measured if dataset.normalisation else None
        result = likelihood_ratio(dataset, test, seeds.fit)
    except (PlanError, FileFormatError):
        raise
    except Exception as failure:  # one bad toy must not end the run
        return Toy(**facts, status=Status.FAILED, reason=f"{type(failure).__name__}: {failure}")
    return Toy(**facts, **_tested(result, dataset))


@lru_cache(maxsize=16)
def _build(settings: TunedTest, source: Source) -> NplmTest:
    """Build a test once per process."""
    return settings.build(source)


def _tested(result: Outcome, dataset: Dataset) -> dict[str, Any]:
    """Return what a toy keeps of its fits. A t that no fit should give makes it a failed one."""
    tau, delta = result.tau, result.delta
    facts: dict[str, Any] = {
        "evaluations": tau.evaluations + delta.evaluations,
        "active_bounds": tau.active_bounds,
        "seconds": result.seconds,
    }
    numbers: dict[str, Any] = {
        "t": float(result.t),
        "tau": float(tau.value),
        "delta": float(delta.value),
        "nu_tau": tuple(float(x) for x in tau.nu),
        "nu_delta": tuple(float(x) for x in delta.nu),
        "nu_norm_tau": float(tau.nu_norm),
        "nu_norm_delta": float(delta.nu_norm),
    }
    if result.status == Status.FAILED:
        return facts | {"status": Status.FAILED, "reason": "the likelihood could not be computed"}
    numbers["log_yield"] = log_yield(dataset, delta)
    flat = [x for value in numbers.values() for x in (value if isinstance(value, tuple) else (value,))]
    if not all(math.isfinite(x) for x in flat):
        return facts | {"status": Status.FAILED, "reason": "a fit returned a number that is not finite"}
    if numbers["t"] < -_ROUNDING_OF_T:
        return facts | {"status": Status.FAILED, "reason": "tau came out below Delta, which h = 0 gives"}
    return facts | numbers | {"status": result.status.value}
