"""Events at nu = 0 and at the points of the response's grid, aligned row by row.

A nuisance may move events, give them other weights, or bring a sample of its own. All three are rows of one
table: an event has a row, a z and a weight at every nu. An event of a sample that was simulated apart (an
*extra* event) is a row that passes at its own nu and nowhere else. Such rows fluctuate on their own; all
others do so together with their nominal partner, so that sums over rows know every covariance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import Embedded
from covad.errors import TrainingError
from covad.settings import Nu

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """One sample at nu = 0 and at several nu, aligned by event.

    `z[nu]` has a row for every event that passes at nu or at 0; `passes[nu]` says whether it passes there.
    It is the very array `nominal` where nu moves none of them. `weights` are those of the events at nu = 0,
    with their signs; None if each counts once. `factors[nu]` are what they are multiplied by at nu; it has no
    entry where that is one for all. `extra` says which rows exist at one nu only; None if none does.
    """

    nominal: NDArray[np.float32]
    nominal_passes: NDArray[np.bool_]
    z: Mapping[Nu, NDArray[np.float32]]
    passes: Mapping[Nu, NDArray[np.bool_]]
    weights: Floats | None = None
    factors: Mapping[Nu, Floats] = field(default_factory=dict)
    extra: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.nominal)

    @classmethod
    def align(cls, nominal: Embedded, shifted: Mapping[Nu, Embedded]) -> Pairs:
        """Give every sample a row for every event; z is zero where an event does not pass.

        Events of `shifted` whose row is -1 are extra: they come after all others, in the order of the nu.
        Weights that are all one are none.
        """
        if not shifted:
            raise TrainingError("the response needs at least one shifted sample")
        if (nominal.rows < 0).any():
            raise TrainingError("the nominal events of the response need rows: they are what others match")
        n_matched = 1 + max(int(e.rows.max(initial=-1)) for e in (nominal, *shifted.values()))
        shifted = _numbered(shifted, n_matched)
        n = 1 + max(int(e.rows.max(initial=-1)) for e in (nominal, *shifted.values()))
        extra = np.arange(n) >= n_matched
        z0, passes0 = _spread(nominal, n)
        for embedded in shifted.values():  # an extra event has the z of its own nu wherever it does not pass
            own = extra[embedded.rows]
            z0[embedded.rows[own]] = embedded.z[own]
        weights = _weights(nominal, shifted, n)
        z, passes, factors = {}, {}, {}
        for nu, embedded in shifted.items():
            there, passes[nu] = _spread(embedded, n)
            there[extra] = z0[extra]
            moved = passes[nu] & (there != z0).any(axis=1)
            z[nu] = there if moved.any() else z0
            if (embedded.weights != weights[embedded.rows]).any():
                factors[nu] = _factors(embedded, weights, nu)
        known = np.where(np.isnan(weights), 1.0, weights)
        return cls(
            z0,
            passes0,
            z,
            passes,
            np.nan_to_num(weights) if (known != 1.0).any() else None,
            factors,
            extra if extra.any() else None,
        )

    @property
    def plain(self) -> bool:
        """Return whether nu moves events and does nothing else to them."""
        return not self.factors and self.extra is None

    @property
    def n_matched(self) -> int:
        """Return the number of rows that are events of the nominal sample."""
        return len(self) if self.extra is None else int((~self.extra).sum())

    @property
    def nominal_weights(self) -> Floats | None:
        """Return the weights of the nominal events that pass."""
        return None if self.weights is None else self.weights[self.nominal_passes]

    @property
    def n_effective(self) -> float:
        """Return how many nominal events of equal weight would tell as much as those that pass."""
        weights = self.nominal_weights
        if weights is None:
            return float(self.nominal_passes.sum())
        return float(weights.sum() ** 2 / max(np.square(weights).sum(), np.finfo(np.float64).tiny))

    def weights_at(self, nu: Nu) -> Floats | None:
        """Return the weights of all rows at nu; None if each counts once."""
        factors = self.factors.get(nu)
        if factors is None or self.weights is None:
            return self.weights if factors is None else factors
        return self.weights * factors

    @property
    def nominal_counts(self) -> Floats:
        """Return what every event counts at nu = 0: its weight or one, zero where it does not pass."""
        return _counts(self.nominal_passes, self.weights)

    def counts(self, nu: Nu) -> Floats:
        """Return what every event counts at nu."""
        return _counts(self.passes[nu], self.weights_at(nu))

    def log_yield(self, nu: Nu) -> float:
        """Return log(N_nu/N_0) of the events that pass the selection."""
        if nu not in self.passes:
            raise TrainingError(f"the yield at nu = {list(nu)} needs the sample there")
        if not (self.passes[nu].any() and self.nominal_passes.any()):
            raise TrainingError(
                f"no event passes the selection at nu = {list(nu)}, or none at 0: loosen source.cuts"
            )
        if self.weights is None and nu not in self.factors:
            return float(np.log(self.passes[nu].sum() / self.nominal_passes.sum()))
        there, nominal = float(self.counts(nu).sum()), float(self.nominal_counts.sum())
        if min(there, nominal) <= 0.0:
            raise TrainingError(
                f"the weights of the events that pass the selection add up to {there:.3g} at nu = {list(nu)} "
                f"and to {nominal:.3g} at 0, where positive yields are needed: raise source.splits"
            )
        return float(np.log(there / nominal))

    def of_nuisances(self, group: Sequence[int]) -> Pairs:
        """Return the points at which these nuisances alone are shifted, with the events that pass there."""
        others = [k for k in range(len(next(iter(self.z)))) if k not in group]
        kept = {nu: tuple(nu[k] for k in group) for nu in self.z if not any(nu[k] for k in others)}
        if not kept:
            raise TrainingError(f"the nuisances of numbers {list(group)} are shifted at no point")
        own = Pairs(
            self.nominal,
            self.nominal_passes,
            {new: self.z[nu] for nu, new in kept.items()},
            {new: self.passes[nu] for nu, new in kept.items()},
            self.weights,
            {new: self.factors[nu] for nu, new in kept.items() if nu in self.factors},
            self.extra,
        )
        if self.extra is None:
            return own
        there = np.any([self.nominal_passes, *own.passes.values()], axis=0)
        found = own.take(np.flatnonzero(there))
        return found if found.extra is not None and found.extra.any() else replace(found, extra=None)

    def take(self, rows: NDArray[np.int64]) -> Pairs:
        """Return the pairs of these rows."""
        nominal = self.nominal[rows]
        return Pairs(
            nominal,
            self.nominal_passes[rows],
            {nu: nominal if z is self.nominal else z[rows] for nu, z in self.z.items()},
            {nu: p[rows] for nu, p in self.passes.items()},
            None if self.weights is None else self.weights[rows],
            {nu: factors[rows] for nu, factors in self.factors.items()},
            None if self.extra is None else self.extra[rows],
        )


def _numbered(shifted: Mapping[Nu, Embedded], first: int) -> dict[Nu, Embedded]:
    """Give every event without a row one of its own, from `first` on."""
    numbered = {}
    for nu, embedded in shifted.items():
        rows, own = embedded.rows.copy(), embedded.rows < 0
        rows[own] = first + np.arange(own.sum())
        first += int(own.sum())
        numbered[nu] = Embedded(embedded.z, rows, embedded.weights, embedded.yield_ratio)
    return numbered


def _spread(embedded: Embedded, n: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return z of n rows, zero where an event does not pass, and whether it passes."""
    z, passes = np.zeros((n, embedded.z.shape[1]), np.float32), np.zeros(n, dtype=bool)
    z[embedded.rows], passes[embedded.rows] = embedded.z, True
    return z, passes


def _weights(nominal: Embedded, shifted: Mapping[Nu, Embedded], n: int) -> Floats:
    """Return the weight of every row at nu = 0, NaN where an event passes nowhere.

    An event that does not pass at 0 has the first weight that it has anywhere, and not zero if it can: only
    its product with the factors counts.
    """
    weights, free = np.full(n, np.nan), np.ones(n, dtype=bool)
    weights[nominal.rows], free[nominal.rows] = nominal.weights, False
    for embedded in shifted.values():
        known = weights[embedded.rows]
        new = free[embedded.rows] & (np.isnan(known) | (known == 0.0))
        weights[embedded.rows[new]] = embedded.weights[new]
    return weights


def _factors(embedded: Embedded, weights: Floats, nu: Nu) -> Floats:
    """Return what the weights are multiplied by at nu; one where an event does not pass there."""
    factors, nominal = np.ones(len(weights)), weights[embedded.rows]
    empty = nominal == 0.0
    if (empty & (embedded.weights != 0.0)).any():
        raise TrainingError(
            f"an event of weight 0 has another one at nu = {list(nu)}: no factor of its weight gives that; "
            "leave events of weight 0 out of source.background"
        )
    factors[embedded.rows] = np.where(empty, 1.0, embedded.weights / np.where(empty, 1.0, nominal))
    return factors


def _counts(passes: NDArray[np.bool_], weights: Floats | None) -> Floats:
    return passes.astype(np.float64) if weights is None else weights * passes
