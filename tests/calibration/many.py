"""Toys of the latent world with many nuisances: t against its law, all pulls, and one that is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from calibration.limits import CountLaw, Normal
from calibration.pulls import Pulls, pulls
from numpy.typing import NDArray
from scipy.stats import norm

from covad.inference.nuisances import nuisance_covariance
from covad.nplm.convex.capacity import with_capacity
from covad.nplm.convex.convex import ConvexProblem, ConvexTest
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.convex.law import ConvexNull, analytic_null
from covad.nplm.dataset import Dataset, Response
from covad.nplm.fit import Fit, NplmTest, Status
from covad.nplm.likelihood import fit_nuisances, join_nuisances
from covad.nplm.settings import Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld, background

Float64 = NDArray[np.float64]
#: Reference from which moments are taken, in units of a toy's.
MOMENTS = 5
#: Chosen before any toy was looked at.
SEED = 20261201


class Judged(NamedTuple):
    """What is kept of a toy: h at all its events would fill the memory."""

    t: float
    delta: Fit
    status: Status


@dataclass(frozen=True)
class ManyNuisances:
    """The convex test in a world with `world.n_nuisances` nuisances and a normalisation."""

    world: LatentWorld
    bumps: int = 100

    @cached_property
    def test(self) -> ConvexTest:
        sizes = Sizes(expected=self.world.expected, reference=self.world.n_reference)
        return with_capacity(background(20_000, np.random.default_rng(SEED)), self.bumps, sizes=sizes)

    @cached_property
    def moments_sample(self) -> Dataset:
        """A dataset with a large reference, for analytic laws; its events are in no toy."""
        large = replace(self.world, n_reference=MOMENTS * self.world.n_reference)
        return large.toy(np.random.default_rng([SEED, 1]))

    @property
    def n_all(self) -> int:
        """The number of nuisances with the normalisation."""
        return self.world.n_nuisances + 1

    def null(self, sample: Dataset | None = None) -> ConvexNull:
        """The law of t at nu = 0; of another sample, if it is seen with other nuisances."""
        return analytic_null(self.test, sample or self.moments_sample, n_reference=self.world.n_reference)

    def toys(self, n: int, nu: Float64 | float = 0.0, stream: int = 0) -> Iterator[Dataset]:
        for index in range(n):
            yield self.world.toy(np.random.default_rng([SEED, 2, stream, index]), nu)

    def toys_of_the_prior(self, n: int) -> Iterator[tuple[Float64, Dataset]]:
        """Toys with truths of their own, and these; the normalisation is that of a toy at 0."""
        for index in range(n):
            rng = np.random.default_rng([SEED, 3, index])
            nu = rng.normal(size=self.world.n_nuisances)
            yield nu, self.world.toy(rng, nu)

    def outcomes(self, n: int, test: NplmTest | None = None) -> list[Judged]:
        """Test toys at nu = 0, with the convex test unless told."""
        found = (likelihood_ratio(toy, test or self.test, index) for index, toy in enumerate(self.toys(n)))
        return [Judged(outcome.t, outcome.delta, outcome.status) for outcome in found]


@dataclass(frozen=True)
class TypeOne:
    """How often t was beyond `sigma` by a law, and the chance of a count as far out."""

    sigma: float
    rate: float
    p: float


def type_one_errors(p: Float64, sigmas: tuple[float, ...]) -> list[TypeOne]:
    """Count the p-values of toys beyond each significance."""
    found = []
    for sigma in sigmas:
        alpha = float(norm.sf(sigma))
        k = int(np.count_nonzero(p <= alpha))
        found.append(TypeOne(sigma, k / len(p), CountLaw(len(p), np.array([alpha])).two_sided(k)))
    return found


def p_by_law(law: GeneralisedChi2, t: Float64) -> Float64:
    return np.array([law.sf(x) for x in t])


def all_pulls(many: ManyNuisances, fits: list[Fit]) -> list[Pulls]:
    """Pulls of every nuisance of the Delta fits of toys at nu = 0, the normalisation last."""
    sample = many.moments_sample
    covariance = nuisance_covariance(sample, np.zeros(many.n_all), many.world.n_reference)
    fitted = np.array([join_nuisances(fit, sample) for fit in fits])
    return [
        pulls(column, 0.0, float(sigma))
        for column, sigma in zip(fitted.T, np.sqrt(np.diag(covariance)), strict=True)
    ]


def constraints(many: ManyNuisances) -> Float64:
    """The error of every shape nuisance after the fit, in units of its sigma."""
    covariance = nuisance_covariance(many.moments_sample, np.zeros(many.n_all), many.world.n_reference)
    return np.sqrt(np.diag(covariance))[:-1]


def without(dataset: Dataset, k: int) -> Dataset:
    """What a test sees that does not know nuisance k."""
    known = [j for j in range(dataset.n_nuisances) if j != k]
    return replace(
        dataset,
        reference_response=Response(dataset.reference_response.linear[:, known]),
        data_response=Response(dataset.data_response.linear[:, known]),
        measured=dataset.measured[known],
    )


@dataclass(frozen=True)
class Dropped:
    """The mean of t where the test does not know nuisance k, at its true value, and as the law has it."""

    healthy: Normal  # at nu = 0
    expected: Normal  # at the true nu_k, in second order
    mean: float

    def noticed(self, level: float) -> bool:
        low, high = self.healthy.limits(level)
        return not low <= self.mean <= high


def drop(many: ManyNuisances, k: int, nu_k: float, n: int) -> Dropped:
    """Test toys at nu_k with a test that profiles all other nuisances."""
    sample = without(many.moments_sample, k)
    null = many.null(sample)
    columns = ConvexProblem.of(many.test, sample).reference.astype(np.float64)
    g = many.moments_sample.reference_response.linear[:, k].astype(np.float64)
    shift = (sample.weights * np.expm1(nu_k * g)) @ columns
    form, spread = null.form, null.form @ null.variance
    moved = 2.0 * np.trace(spread @ spread) + 4.0 * shift @ spread @ form @ shift
    truth = nu_k * np.eye(many.world.n_nuisances)[k]
    t = [likelihood_ratio(without(toy, k), many.test, 0).t for toy in many.toys(n, truth, stream=k + 1)]
    return Dropped(
        Normal(null.law.mean, null.law.std / np.sqrt(n)),
        Normal(float(null.law.mean + shift @ form @ shift), float(np.sqrt(moved / n))),
        float(np.mean(t)),
    )


def t_of(test: NplmTest, toys: Iterator[Dataset]) -> Float64:
    return np.array([likelihood_ratio(toy, test, index).t for index, toy in enumerate(toys)])


def pulls_of_sum(world: LatentWorld, n: int, with_matrix: bool) -> Pulls:
    """Pulls of the sum of the shape nuisances of Delta fits, by the covariance that each fit states.

    Without the matrix the fit takes correlated auxiliary measurements for independent ones.
    """
    found = []
    for index in range(n):
        toy = world.toy(np.random.default_rng([SEED, 4, index]))
        if not with_matrix:
            toy = replace(toy, correlation=None)
        nu = join_nuisances(fit_nuisances(toy), toy)
        shape = slice(world.n_nuisances)
        found.append(nu[shape].sum() / np.sqrt(nuisance_covariance(toy, nu)[shape, shape].sum()))
    return pulls(found, 0.0, 1.0)
