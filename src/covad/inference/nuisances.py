"""What the Delta fit says about the nuisances, and whether the auxiliary measurements agree with the data.

Around the truth the fit is nu_hat = H^-1 (s + A nu0), H = F + A, with the score s of variance F + C and the
auxiliary values nu0 of variance A^-1. F stands for the Poisson fluctuations of the data, C for the finite
reference. So

    cov(nu_hat) = H^-1 (F + C + A) H^-1,

and H^-1 alone, the error of a fit to a perfect reference, is too small. nu_hat - nu0 = H^-1 (s - F nu0) has
the variance

    H^-1 (F + C + F A^-1 F) H^-1,

which for an infinite reference (C = 0) is A^-1 - H^-1, the variance of the usual pull. The quadratic form of
the difference is a chi2 with as many degrees of freedom as there are nuisances that the data can tell.

Constraints and correlations are those of H^-1, as pictures of fits have them everywhere: how far the
curvature of the likelihood lets a nuisance move, with the reference as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2

from covad.nplm.convex.law import ScoreMoments
from covad.nplm.dataset import Dataset, Float64
from covad.nplm.fit import Fit
from covad.nplm.likelihood import GaussianPenalty, join_nuisances, nuisance_shift, nuisance_slopes
from covad.storage.records import Record

#: Directions whose share of the largest variance is below this are ones that the data do not tell.
_UNTOLD = 1e-9
#: Sigma of an auxiliary value: further out it is a slip of the units, and its fit would hardly end.
LARGEST_AUXILIARY = 10.0
#: A pull beyond which a nuisance is worth a look: one in twenty is there by chance.
UNUSUAL_PULL = 2.0
#: Standard errors of the mean over toys beyond which a fitted nuisance is biased: one of fifty honest ones is
#: so in one of 300 runs.
BIAS_ERRORS = 4.0
#: A pull beyond which an auxiliary value contradicts the data.
LARGE_PULL = 5.0
#: Standard deviations of the number of events beyond which it deserves a word.
SURPRISING = 3.0


@dataclass(frozen=True)
class NuisanceFit(Record):
    """One nuisance of the fit without h, in units of the sigma of its auxiliary measurement."""

    name: str
    auxiliary: float
    fitted: float
    error: float
    pull: float  # fitted - auxiliary, over the standard deviation of that difference
    constraint: float | None = None  # post-fit over pre-fit sigma; None in answers of older versions

    @property
    def shift(self) -> float:
        """Return fitted - auxiliary, the pull of CMS and ATLAS plots: in units of the pre-fit sigma."""
        return self.fitted - self.auxiliary

    @property
    def unusual(self) -> bool:
        """Return whether people should look at it: it left its pre-fit sigma, or moved too far by chance."""
        return abs(self.shift) > 1.0 or abs(self.pull) > UNUSUAL_PULL


@dataclass(frozen=True)
class Correlations(Record):
    """Correlation matrix of the nuisances of the fit without h."""

    names: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]

    @property
    def pairs(self) -> tuple[tuple[str, str, float], ...]:
        """Return all pairs with their correlation, the strongest first."""
        found = [
            (first, second, self.matrix[k][m])
            for k, first in enumerate(self.names)
            for m, second in enumerate(self.names)
            if k < m
        ]
        return tuple(sorted(found, key=lambda pair: -abs(pair[2])))


@dataclass(frozen=True)
class Compatibility(Record):
    """How well all auxiliary values agree with what the data prefer."""

    chi2: float
    dof: int
    p: float


@dataclass(frozen=True)
class NuisanceToys(Record):
    """One nuisance over toys: fitted minus true value, in units of its sigma, by the fits without and with h.

    The mean should be 0; the standard deviation is what is left of the pre-fit sigma: the constraint.
    """

    name: str
    n_toys: int
    mean: float
    std: float
    mean_with_h: float
    std_with_h: float

    @property
    def mean_error(self) -> float:
        """Return the standard error of the mean without h."""
        return self.std / math.sqrt(self.n_toys)

    @property
    def biased(self) -> bool:
        """Return whether the mean without h is off by more than chance makes it."""
        return abs(self.mean) > BIAS_ERRORS * self.mean_error


def nuisances_of_toys(
    names: Sequence[str], truth: Float64, without_h: Float64, with_h: Float64
) -> tuple[NuisanceToys, ...]:
    """Return every nuisance over toys; arrays are (toys, nuisances), in units of sigma."""
    found = []
    for number, name in enumerate(names):
        moments = []
        for fitted in (without_h, with_h):
            distance = fitted[:, number] - truth[:, number]
            moments += [float(distance.mean()), float(distance.std(ddof=1))]
        found.append(NuisanceToys(name, len(truth), *moments))
    return tuple(found)


def judge_nuisances(
    dataset: Dataset, delta: Fit, names: tuple[str, ...], further: Float64 | None = None
) -> tuple[tuple[NuisanceFit, ...], Compatibility | None]:
    """Return each nuisance that has an auxiliary measurement, and the compatibility of all.

    `further` is a variance of the reference in addition (`covad.nplm.convex.law.analytic_nulls`).
    """
    if not names:
        return (), None
    nu = join_nuisances(delta, dataset)
    penalty = GaussianPenalty.of_nuisances(dataset)
    measured = penalty.precision > 0  # a yield that floats freely is not
    per_sigma = np.sqrt(penalty.precision[measured])
    difference = (nu - penalty.centre)[measured] * per_sigma
    squares = np.ix_(measured, measured)
    variance = difference_variance(dataset, nu, further)[squares] * np.outer(per_sigma, per_sigma)
    errors = np.sqrt(np.diag(nuisance_covariance(dataset, nu, further=further))[measured]) * per_sigma
    centre, nu = penalty.centre[measured], nu[measured]
    told = np.diag(variance) > _UNTOLD  # else the data say nothing, and the fit stays at the auxiliary value
    pulls = np.divide(difference, np.sqrt(np.diag(variance)), out=np.zeros_like(difference), where=told)
    constraints = np.sqrt(np.diag(postfit_covariance(dataset, delta))[measured]) * per_sigma
    columns = zip(names, centre * per_sigma, nu * per_sigma, errors, pulls, constraints, strict=True)
    return tuple(NuisanceFit(name, *(float(x) for x in numbers)) for name, *numbers in columns), _compatible(
        difference, variance
    )


def postfit_covariance(dataset: Dataset, delta: Fit) -> Float64:
    """Return H^-1 at the Delta fit, (shape..., [normalisation])."""
    nu, response = join_nuisances(delta, dataset), dataset.reference_response
    slopes = nuisance_slopes(response, nu)
    density = dataset.weights * np.exp(nuisance_shift(response, nu))
    curvature = slopes.T @ (slopes * density[:, None]) + GaussianPenalty.of_nuisances(dataset).curvature
    return np.asarray(np.linalg.inv(curvature))


def correlate_nuisances(dataset: Dataset, delta: Fit, names: tuple[str, ...]) -> Correlations | None:
    """Return the correlations of the nuisances that have an auxiliary measurement; None without any."""
    if not names:
        return None
    measured = GaussianPenalty.of_nuisances(dataset).precision > 0
    covariance = postfit_covariance(dataset, delta)[np.ix_(measured, measured)]
    sigma = np.sqrt(np.diag(covariance))
    return Correlations(names, tuple(tuple(row) for row in (covariance / np.outer(sigma, sigma)).tolist()))


def contradictions(nuisances: Iterable[NuisanceFit]) -> Iterator[str]:
    """Tell which auxiliary values the data do not believe."""
    for found in nuisances:
        if abs(found.pull) > LARGE_PULL:
            yield f"the auxiliary value of {found.name} contradicts the data: pull {found.pull:+.1f}"


def nuisance_covariance(
    sample: Dataset, nu: Float64, n_reference: int | None = None, further: Float64 | None = None
) -> Float64:
    """Return the covariance of the nuisances of the Delta fit, (shape..., [normalisation]), if `nu` is true.

    Only the reference and the settings of `sample` are used. A reference larger than that of the test
    estimates the moments better: give the size of the test's as `n_reference`.
    """
    response = sample.reference_response
    growth = np.exp(nuisance_shift(response, nu))
    moments = ScoreMoments.of(nuisance_slopes(response, nu).astype(np.float32), sample.weights, growth)
    if n_reference is not None:
        moments = moments.for_reference_of(n_reference, sampled=len(growth))
    if further is not None:
        moments = moments.with_further(further)
    curvature = moments.information + GaussianPenalty.of_nuisances(sample).curvature
    inverse = np.linalg.inv(curvature)
    return np.asarray(inverse @ (curvature + moments.reference_variance) @ inverse)


def difference_variance(dataset: Dataset, nu: Float64, further: Float64 | None = None) -> Float64:
    """Return the variance of nu_hat - nu0 in the units of the fit; it means nothing for a free yield."""
    response = dataset.reference_response
    growth = np.exp(nuisance_shift(response, nu))
    moments = ScoreMoments.of(nuisance_slopes(response, nu).astype(np.float32), dataset.weights, growth)
    if further is not None:
        moments = moments.with_further(further)
    F, C = moments.information, moments.reference_variance
    penalty = GaussianPenalty.of_nuisances(dataset)
    precision = penalty.precision
    inverse = np.linalg.inv(F + penalty.curvature)
    per_variance = np.divide(F, precision, out=np.zeros_like(F), where=precision > 0)
    if penalty.joint is not None:
        per_variance = F @ penalty.covariance
    return np.asarray(inverse @ (F + C + per_variance @ F) @ inverse)


def _compatible(difference: Float64, variance: Float64) -> Compatibility | None:
    """Return None if the data tell no nuisance."""
    values, vectors = np.linalg.eigh(variance)
    told = values > _UNTOLD * values.max()
    statistic = float(np.sum((vectors.T @ difference)[told] ** 2 / values[told]))
    dof = int(told.sum())
    if not dof:
        return None
    return Compatibility(statistic, dof, float(chi2.sf(statistic, dof)))


def expected_number(dataset: Dataset) -> float:
    """Return how many data the auxiliary values let expect."""
    return float(_density_at_auxiliary(dataset).sum())


def _density_at_auxiliary(dataset: Dataset) -> Float64:
    centre = GaussianPenalty.of_nuisances(dataset).centre
    return np.asarray(dataset.weights * np.exp(nuisance_shift(dataset.reference_response, centre)))


def yield_deviation(dataset: Dataset) -> float:
    """Return how far the number of data is from what the auxiliary values let expect, in standard deviations.

    They are those of a Poisson number and of all nuisances, as far as these change the log of the yield: the
    signed root of the likelihood ratio, -2 log of the best Poisson probability times that of the nuisances.
    Without a Poisson error this is log(N / expected) over the standard deviation of the log yield.
    """
    penalty, response = GaussianPenalty.of_nuisances(dataset), dataset.reference_response
    density = _density_at_auxiliary(dataset)
    expected = float(density.sum())
    slopes = density @ nuisance_slopes(response, penalty.centre)
    changes = slopes / np.sqrt(penalty.precision) / expected
    variance = float(changes @ changes)
    if penalty.joint is not None:
        variance = float(slopes @ penalty.covariance @ slopes) / expected**2
    return _deviation_of_number(len(dataset.data), expected, variance)


def _deviation_of_number(n: int, expected: float, variance: float) -> float:
    """Return by how many standard deviations n is off, if the log of its mean has a variance besides."""
    all_of_it, y, prior = math.log(n / expected), 0.0, 0.0
    if variance and all_of_it:  # the best log yield takes a part of the difference, Poisson the rest
        low, high = sorted((0.0, all_of_it))
        y = float(brentq(lambda y: expected * math.exp(y) - n + y / variance, low, high))
        prior = y**2 / variance
    ratio = prior + 2.0 * (expected * math.exp(y) - n + n * (all_of_it - y))
    return math.copysign(math.sqrt(max(ratio, 0.0)), all_of_it)
