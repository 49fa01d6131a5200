"""Where to climb from: a search on two levels for the highest of many maxima.

The likelihood of a network in a box has many local maxima, several units of t apart. Candidates are climbed
on the condensed sample (`condense.py`), where they cost a tenth and the finest wrinkles are ironed out; those
that also promise on the full sample are climbed there, with the curvature of the condensed one; and the best
few are climbed to the end with their own. The first candidates are random; the later ones are *hops* from the
best maxima so far, with one hidden unit redrawn. A candidate that ends in a known maximum costs no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covad.errors import DatasetError
from covad.nplm.dataset import Float64
from covad.nplm.fit import Status
from covad.nplm.maximise import Expansion, Loose
from covad.nplm.network.condense import condense
from covad.nplm.network.likelihood import NetworkLikelihood
from covad.nplm.network.newton import BoundedMaximum, Expandable, NewtonSettings, climb
from covad.nplm.network.rotation import STIFFNESS

#: Two maxima of the condensed sample this close in log L are one.
SAME = 0.005
_CONDENSED = NewtonSettings(small_gain=0.05, patience=3)
_POLISH = NewtonSettings(small_gain=0.02, patience=3, damping=1.0)
_FINISH = NewtonSettings(damping=0.1)


@dataclass(frozen=True)
class Search:
    """How many candidates, and how many of them are followed up."""

    starts: int = 8  # climbs on the full sample from random candidates
    hops: int = 100  # candidates from the best maxima with a hidden unit redrawn
    draws: int = 5  # random candidates per start, climbed on the condensed sample: the best are taken
    parents: int = 3  # a hop begins at one of the best this many maxima
    margin: float = 3.0  # a hop is climbed on the full sample from this far (in t) below the best
    finished: int = 3  # maxima climbed to the end
    condensed: NewtonSettings = _CONDENSED
    polish: NewtonSettings = _POLISH
    finish: NewtonSettings = _FINISH

    def __post_init__(self) -> None:
        if self.starts < 1 or self.hops < 0 or min(self.draws, self.parents, self.finished) < 1:
            raise DatasetError(
                f"a search needs at least one start, not {self.starts} starts, {self.hops} hops"
            )


FULL_SEARCH = Search()
ONE_START = Search(starts=1, hops=0)


class BorrowedCurvature:
    """Value and gradient of the full sample, curvature of the condensed one: a quarter of the cost."""

    def __init__(self, full: NetworkLikelihood, condensed: NetworkLikelihood) -> None:
        self.full, self.condensed = full, condensed

    def expand(self, theta: Float64) -> Expansion:
        value, gradient = self.full.slope(theta)
        borrowed = self.condensed.expand(theta)
        return replace(borrowed, value=value, gradient=gradient)

    def sharpen(self, theta: Float64) -> Expansion | None:
        return self.full.expand(theta)


class FrozenCoupling:
    """A function whose loose nuisances have the coupling of one point, until it is asked to be sharper.

    It hardly changes on the last steps; the condensed sample tells it.
    """

    def __init__(self, function: Expandable, condensed: NetworkLikelihood, theta: Float64) -> None:
        self.function, self.condensed = function, condensed
        self.loose = Loose(condensed.coupling(theta), STIFFNESS)

    def expand(self, theta: Float64) -> Expansion:
        return replace(self.function.expand(theta), loose=self.loose)

    def sharpen(self, theta: Float64) -> Expansion | None:
        self.loose = Loose(self.condensed.coupling(theta), STIFFNESS)
        sharper = self.function.sharpen(theta) or self.function.expand(theta)
        return replace(sharper, loose=self.loose)


@dataclass(frozen=True)
class _Peak:
    """A maximum on the full sample, as far as it has been climbed."""

    t: float  # 2 log L
    theta: Float64


class TwoLevelSearch:
    """One search on one sample; everything random comes from `rng`."""

    def __init__(
        self, full: NetworkLikelihood, limits: Float64, search: Search, rng: np.random.Generator
    ) -> None:
        self.full, self.limits, self.search, self.rng = full, limits, search, rng
        sample = condense(full.sample)
        if 2 * len(sample) > len(full.sample):  # there is little to condense
            self.condensed = full
        else:
            self.condensed = full.on(sample)
        self.borrowed = BorrowedCurvature(full, self.condensed)
        self.seen: list[float] = []
        self.peaks: list[_Peak] = []

    def run(self, nuisances: Float64) -> BoundedMaximum:
        """Return the highest maximum that was found, climbed to the end."""
        self._start(nuisances)
        for _ in range(self.search.hops):
            self._hop()
        ends = [
            climb(self._coupled(self.full, peak.theta), peak.theta, self.limits, self.search.finish)
            for peak in self.peaks[: self.search.finished]
        ]
        if not ends:
            return BoundedMaximum(np.zeros_like(self.limits), -np.inf, Status.FAILED, self.full.evaluations)
        best = max(ends, key=lambda end: end.value)
        return BoundedMaximum(best.theta, best.value, best.status, self.full.evaluations)

    def _start(self, nuisances: Float64) -> None:
        """Climb random candidates on the condensed sample, and the best of them on the full one."""
        box = self.limits[: self.full.n_parameters]
        found = []
        for _ in range(self.search.starts * self.search.draws):
            candidate = self._climb_condensed(np.append(self.rng.uniform(-box, box), nuisances))
            if candidate is not None:
                found.append(_Peak(2.0 * self.full.value(candidate), candidate))
        found.sort(key=lambda peak: -peak.t)
        for peak in found[: self.search.starts]:
            self._polish(peak.theta)

    def _hop(self) -> None:
        """Redraw one hidden unit of one of the best maxima, and climb again."""
        if not self.peaks:
            return
        parent = self.peaks[self.rng.integers(min(self.search.parents, len(self.peaks)))]
        candidate = self._climb_condensed(self._redraw(parent.theta))
        if candidate is not None and 2.0 * self.full.value(candidate) > self.peaks[0].t - self.search.margin:
            self._polish(candidate)

    def _climb_condensed(self, start: Float64) -> Float64 | None:
        """Return the maximum of the condensed sample above `start`, or None if it is known."""
        end = climb(self.condensed, start, self.limits, self.search.condensed)
        if end.status is Status.FAILED or any(abs(end.value - value) < SAME for value in self.seen):
            return None
        self.seen.append(end.value)
        return end.theta

    def _polish(self, theta: Float64) -> None:
        """Climb on the full sample with borrowed curvature, and keep the peak in order of height."""
        end = climb(self._coupled(self.borrowed, theta), theta, self.limits, self.search.polish)
        if end.status is not Status.FAILED:
            self.peaks.append(_Peak(2.0 * end.value, end.theta))
            self.peaks.sort(key=lambda peak: -peak.t)

    def _coupled(self, function: Expandable, theta: Float64) -> Expandable:
        """Let the function know how loose nuisances, if there are any, are coupled near theta."""
        if self.full.n_loose == 0:
            return function
        return FrozenCoupling(function, self.condensed, theta)

    def _redraw(self, theta: Float64) -> Float64:
        """Draw the weights into and out of one hidden unit again, anywhere in the box."""
        rows = self.full.architecture.rows
        widths = rows.widths
        layer = int(self.rng.integers(1, len(widths) - 1)) if len(widths) > 2 else 0
        redrawn = theta.copy()
        if layer == 0:
            box = self.limits[: self.full.n_parameters]
            redrawn[: len(box)] = self.rng.uniform(-box, box)
            return redrawn
        unit = int(self.rng.integers(widths[layer]))
        n_in, n_out = widths[layer - 1] + 1, widths[layer + 1]
        into = rows.weights[layer] + unit * n_in + np.arange(n_in)
        out_of = rows.weights[layer + 1] + unit + np.arange(n_out) * (widths[layer] + 1)
        places = np.concatenate([into, out_of])
        redrawn[places] = self.rng.uniform(-self.limits[places], self.limits[places])
        return redrawn
