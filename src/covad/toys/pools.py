"""Pools of embedded events: what toys draw from, in memory.

Events of the reference may have weights; all others count alike. `pool_files` has them on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from covad.errors import DatasetError, PlanError, TooFewEventsError
from covad.events.weights import accepted, effective_number
from covad.nplm.dataset import Float32, Float64, Response
from covad.settings import Nu
from covad.storage.records import Record

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Cost(Record):
    """What accept-reject cost a pool that had weights."""

    events: int  # before
    accepted: int
    negative: FiniteFloat  # share of the events whose weight was negative before the smoothing
    effective: FiniteFloat  # events that those before are worth, by their smoothed weights
    effective_signed: FiniteFloat  # the same by their signed weights

    @property
    def share(self) -> float:
        return self.accepted / self.events

    @property
    def signed_variance(self) -> float:
        """Return what the signs add to the variance of a mean over the pool; see `Pool.signed_variance`."""
        return max(1.0 / self.effective_signed - 1.0 / self.effective, 0.0)


@dataclass(frozen=True)
class LatentEvents:
    """Latent events, their response, and their weights; None if all count alike."""

    z: Float32
    response: Response
    weights: Float64 | None = None

    def __len__(self) -> int:
        return len(self.z)

    def take(self, rows: NDArray[np.integer[Any]]) -> LatentEvents:
        """Return some of the events."""
        quadratic = None if self.response.quadratic is None else self.response.quadratic.take(rows, axis=0)
        response = Response(self.response.linear.take(rows, axis=0), quadratic)
        weights = None if self.weights is None else self.weights.take(rows)
        return LatentEvents(self.z.take(rows, axis=0), response, weights)

    def joined(self, other: LatentEvents) -> LatentEvents:
        """Return these events, then the others; none of them has a weight."""
        if self.weights is not None or other.weights is not None:
            raise DatasetError("data have no weights, so that events with weights cannot be joined to them")
        mine, theirs = self.response, other.response
        quadratic = None
        if mine.quadratic is not None and theirs.quadratic is not None:
            quadratic = np.concatenate([mine.quadratic, theirs.quadratic])
        response = Response(np.concatenate([mine.linear, theirs.linear]), quadratic)
        return LatentEvents(np.concatenate([self.z, other.z]), response)

    def weights_for(self, expected: float) -> Float64:
        """Return weights that sum to the `expected` yield, as a reference enters the likelihood."""
        if self.weights is None:
            return np.full(len(self), expected / len(self))
        return np.asarray(self.weights * (expected / self.weights.sum()))


@dataclass(frozen=True)
class Pool:
    """Events of one kind at one nu; `yield_ratio` is their expected number relative to nu = 0.

    `sample.weights` are positive, and the density of the pool. `signed` are the weights before they were
    smoothed, where some were negative. A pool of data has no weights: `cost` tells what that took.
    """

    sample: LatentEvents
    yield_ratio: float = 1.0
    signed: Float64 | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        weights = self.weights
        if weights is None:
            if self.signed is not None:
                raise DatasetError("a pool with signed weights needs smoothed ones beside them")
            return
        for each in (weights, self.signed):
            if each is not None and each.shape != (len(self),):
                raise DatasetError(f"a pool of {len(self)} events has weights of the shape {each.shape}")
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise DatasetError(
                "weights of a pool must be positive and finite: smooth negative ones, and leave out events "
                "of weight zero"
            )
        if self.signed is not None and not np.isfinite(self.signed).all():
            raise DatasetError("signed weights of a pool must be finite")

    def __len__(self) -> int:
        return len(self.sample)

    @property
    def weights(self) -> Float64 | None:
        return self.sample.weights

    @cached_property
    def effective(self) -> float:
        """Return how many events of equal weight those of the pool are worth."""
        return float(len(self)) if self.weights is None else effective_number(self.weights)

    @property
    def effective_share(self) -> float:
        """Return what one event is worth: n events of the pool count as many times this."""
        return self.effective / len(self)

    def unevenness(self, n_events: int) -> float:
        """Return the relative spread of sum w^2 over random choices of so many events."""
        if self.weights is None:
            return 0.0
        squares = np.square(self.weights)
        return float(np.sqrt(np.square(squares).mean() / n_events) / squares.mean())

    @cached_property
    def signed_variance(self) -> float:
        """Return what signs add to the variance of a mean over the pool, for a column of unit variance.

        Smoothing keeps the sums of the signed weights, and with them their fluctuation: 1 / effective number.
        Toys drawn from the smoothed weights fluctuate as those do, which is less.
        """
        if self.cost is not None:
            return self.cost.signed_variance
        if self.signed is None:
            return 0.0
        return max(1.0 / effective_number(self.signed) - 1.0 / self.effective, 0.0)

    @property
    def worth(self) -> float:
        """Return of how many events of equal weight a mean fluctuates as over the pool, signs included."""
        if not self.signed_variance:
            return self.effective
        return 1.0 / (1.0 / self.effective + self.signed_variance)

    def unweighted(self, seed: int) -> Pool:
        """Return a pool of equal weights: events are accepted in proportion to their weight.

        The largest weight decides how many remain, sum w / max w. No other way to draw a toy without an event
        twice could use more: an event of weight w is expected w N / sum w times in a toy of N events.
        """
        weights = self.weights
        if weights is None:
            return self
        rows = np.flatnonzero(accepted(weights, seed))
        events = LatentEvents(self.sample.z, self.sample.response).take(rows)
        signed = weights if self.signed is None else self.signed
        cost = Cost(
            events=len(self),
            accepted=len(events),
            negative=float((signed < 0).mean()),
            effective=self.effective,
            effective_signed=effective_number(signed),
        )
        return Pool(events, self.yield_ratio, cost=cost)

    def pick(self, n_events: int, rng: np.random.Generator) -> LatentEvents:
        """Draw random events, none twice, with their weights."""
        if n_events > len(self):
            raise TooFewEventsError(f"a toy needs {n_events} events, but a pool has only {len(self)}")
        return self.sample.take(rng.choice(len(self), size=n_events, replace=False, shuffle=False))

    def pick_poisson(self, expected: float, rng: np.random.Generator) -> LatentEvents:
        """Draw a Poisson number of events, for a yield of `expected` at nu = 0."""
        return self.pick(int(rng.poisson(expected * self.yield_ratio)), rng)


@dataclass(frozen=True)
class Pools:
    """All pools of one space."""

    reference: Pool
    basis: Float32
    data: Mapping[Nu, Pool]
    signals: Mapping[str, Mapping[Nu, Pool]] = field(default_factory=dict)
    prior: Mapping[Nu, Pool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pools in (self.data, self.prior, *self.signals.values()):
            if any(pool.weights is not None for pool in pools.values()):
                raise DatasetError(
                    "only the reference may have weights: accept events of data and signals in proportion to "
                    "theirs (Pool.unweighted)"
                )

    def background(self, nu: Nu, prior: bool = False) -> Pool:
        return at_nu(self.prior, nu, "the prior") if prior else at_nu(self.data, nu, "data")

    def signal(self, name: str, nu: Nu) -> Pool:
        return at_nu(of_signal(self.signals, name), nu, name)


def of_signal(signals: Mapping[str, T], name: str) -> T:
    """Return what there is of a signal; raise PlanError if there is nothing."""
    if name not in signals:
        raise PlanError(f"there is no pool of the signal '{name}' (there are {', '.join(signals)})")
    return signals[name]


def at_nu(pools: Mapping[Nu, T], nu: Nu, what: str) -> T:
    """Return what there is at nu; raise PlanError if there is nothing."""
    if nu not in pools:
        there = "; ".join(str(list(n)) for n in pools)
        raise PlanError(f"there is no pool of {what} at nu = {list(nu)} (there are {there})")
    return pools[nu]
