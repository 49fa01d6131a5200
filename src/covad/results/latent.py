"""The latent space as figures show it: marginals of fresh events at every nu, and of a signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.nplm.dataset import Float64
from covad.runs.checks import SpaceChecks, ValidationCounts
from covad.runs.scale import load_scale
from covad.settings import Nu
from covad.storage.ledger import Product
from covad.toys.pool_files import open_pools, pools_digest
from covad.toys.pools import Pools


@dataclass(frozen=True)
class LatentSpace:
    """Pools of one space with the scale that turns their standardised z into the encoder's."""

    pools: Pools
    centre: Float64
    width: Float64

    def raw(self, z: NDArray[np.float32], dimension: int) -> Float64:
        return np.asarray(z[:, dimension] * self.width[dimension] + self.centre[dimension], dtype=np.float64)

    def reference_quantiles(self, dimension: int, shares: list[float]) -> Float64:
        """Return quantiles of the reference, by its weights if it has some."""
        z, weights = self.raw(self.pools.reference.sample.z, dimension), self.pools.reference.weights
        if weights is None:
            return np.quantile(z, shares)
        return np.quantile(z, shares, weights=weights, method="inverted_cdf")


def read_latent_space(product: Product) -> LatentSpace:
    """Open the pools of a space, verified."""
    folder = product.verified()
    scale = load_scale(product)
    centre, width = scale.centre.astype(np.float64), scale.width.astype(np.float64)
    return LatentSpace(open_pools(folder, pools_digest(folder)), centre, width)


@dataclass(frozen=True)
class Marginal:
    """Counts of one latent dimension in equally filled bins, nominal and at every shifted nu."""

    dimension: int
    name: str  # of the dimension
    edges: Float64  # outer ones included
    shifted: tuple[ValidationCounts, ...]  # one per nu, in ascending order

    @property
    def nominal(self) -> Float64:
        return np.array(self.shifted[0].nominal)

    @property
    def largest_shift(self) -> float:
        return max(max(abs(x) for x in line.nu) for line in self.shifted)

    def density(self, counts: Float64) -> Float64:
        return np.asarray(counts / counts.sum() / np.diff(self.edges))

    def ratio(self, counts: Float64) -> Float64:
        """Return counts over nominal ones, NaN where these are not positive: weights may have signs."""
        nominal = self.nominal
        ratio: Float64 = np.divide(counts, nominal, out=np.full(len(nominal), np.nan), where=nominal > 0)
        return ratio

    def log_ratio(self, counts: Float64) -> Float64:
        """Return log(N_nu/N_0), NaN where either is not positive."""
        ratio = self.ratio(counts)
        return np.log(ratio, out=np.full(len(ratio), np.nan), where=ratio > 0)

    def with_signal(self, counts: Float64, share: float) -> Float64:
        """Return the ratio to nominal of nominal events with a share of signal on top."""
        return np.asarray(1 + share * self.ratio(counts / counts.sum()) * self.nominal.sum())

    def signal_counts(self, space: LatentSpace, signal: str) -> Float64:
        """Count the signal at the central nu in the bins of the marginal; the outer ones are open."""
        at = space.pools.signals[signal]
        nu = min(at, key=lambda point: sum(abs(x) for x in point))
        z = space.raw(at[nu].sample.z, self.dimension)
        bins = np.searchsorted(self.edges[1:-1], z)
        return np.bincount(bins, minlength=len(self.edges) - 1).astype(np.float64)

    def along_nuisance(self, nuisance: int, number: int) -> tuple[Float64, Float64, Float64, Float64]:
        """Return nu of one nuisance, empirical log(N_nu/N_0), its error and the modelled one, in one bin.

        The origin, which data and model share, is among them. A bin without events has NaN.
        """
        rows = [(0.0, 0.0, 0.0, 0.0)]
        for line in self.shifted:
            if shifted_alone(line.nu) != nuisance:
                continue
            nu_there = line.nu[nuisance]
            observed, predicted, nominal = (x[number] for x in (line.observed, line.predicted, line.nominal))
            if min(observed, predicted, nominal) <= 0:
                rows.append((nu_there, np.nan, np.nan, np.nan))
                continue
            empirical, modelled = (float(np.log(x / nominal)) for x in (observed, predicted))
            rows.append((nu_there, empirical, line.uncertainty[number] / observed, modelled))
        nu, empirical_all, error, modelled_all = np.array(sorted(rows, key=lambda row: row[0])).T
        return nu, empirical_all, error, modelled_all


def shifted_alone(nu: Nu) -> int | None:
    """Return the only nuisance that is not 0; None if there are more, or none."""
    places = [place for place, x in enumerate(nu) if x]
    return places[0] if len(places) == 1 else None


def effect_sizes(found: Sequence[Marginal]) -> dict[int, float]:
    """Return by nuisance the mean square of log(N_nu/N_0) at one sigma over all marginals, without its noise.

    The noise is that of observed minus predicted counts: where shifted and nominal events are the same
    collisions it is small, where they are separate samples it may exceed the effect.
    """
    squares: dict[int, list[Float64]] = {}
    for marginal in found:
        for line in marginal.shifted:
            nuisance, counts = shifted_alone(line.nu), np.array(line.observed)
            if nuisance is None:
                continue
            listed = squares.setdefault(nuisance, [])
            if abs(line.nu[nuisance]) == 1.0:
                log_ratio = marginal.log_ratio(counts)
                seen = np.isfinite(log_ratio)
                noise = np.array(line.uncertainty)[seen] / counts[seen]
                listed.append(log_ratio[seen] ** 2 - noise**2)
    return {
        nuisance: float(np.concatenate(listed).mean()) if any(map(len, listed)) else 0.0
        for nuisance, listed in squares.items()
    }


def marginals(checks: SpaceChecks | None, space: LatentSpace | None) -> list[Marginal]:
    """Return the marginal of every latent dimension, from the checks of a space.

    The outer bins end where 0.1 % of the reference lie beyond, or after one more bin width.
    """
    comparisons = () if checks is None else checks.comparisons
    places = dict.fromkeys(line.where for line in comparisons if line.edges)
    found = []
    for dimension, where in enumerate(places):
        lines = sorted((line for line in comparisons if line.where == where), key=lambda line: line.nu)
        inner = np.array(lines[0].edges)
        if space is None:
            low, high = 2 * inner[0] - inner[1], 2 * inner[-1] - inner[-2]
        else:
            low, high = space.reference_quantiles(dimension, [0.001, 0.999])
        ends = min(low, inner[0] - 1e-6), max(high, inner[-1] + 1e-6)
        found.append(Marginal(dimension, where, np.array([ends[0], *inner, ends[1]]), tuple(lines)))
    return found
