"""What the Delta fit says about the nuisances, and whether the auxiliary measurements agree with the data.

Around the truth the fit is nu_hat = H^-1 (s + A nu0), H = F + A, with the score s of variance F + C and the
auxiliary values nu0 of variance A^-1; so nu_hat - nu0 = H^-1 (s - F nu0) has the variance

    H^-1 (F + C + F A^-1 F) H^-1,

which for an infinite reference (C = 0) is A^-1 - H^-1, the variance of the usual pull. The quadratic form of
the difference is a chi2 with as many degrees of freedom as there are nuisances that the data can tell.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from covad.inference.pulls import nuisance_covariance
from covad.nplm.convex.law import ScoreMoments
from covad.nplm.dataset import Dataset, Float64
from covad.nplm.fit import Fit
from covad.nplm.likelihood import GaussianPenalty, join_nuisances, nuisance_shift, nuisance_slopes
from covad.observed.result import Compatibility, NuisanceFit

#: Directions whose share of the largest variance is below this are ones that the data do not tell.
_UNTOLD = 1e-9


def judge_nuisances(
    dataset: Dataset, delta: Fit, names: tuple[str, ...]
) -> tuple[tuple[NuisanceFit, ...], Compatibility | None]:
    """Return each nuisance, and the compatibility of all; nothing where the test has no nuisances."""
    if not names:
        return (), None
    nu = join_nuisances(delta, dataset)
    penalty = GaussianPenalty.of_nuisances(dataset)
    per_sigma = np.sqrt(penalty.precision)
    difference = (nu - penalty.centre) * per_sigma
    variance = difference_variance(dataset, nu) * np.outer(per_sigma, per_sigma)
    errors = np.sqrt(np.diag(nuisance_covariance(dataset, nu))) * per_sigma
    pulls = difference / np.sqrt(np.maximum(np.diag(variance), np.finfo(np.float64).tiny))
    columns = zip(names, penalty.centre * per_sigma, nu * per_sigma, errors, pulls, strict=True)
    nuisances = tuple(NuisanceFit(name, *(float(x) for x in numbers)) for name, *numbers in columns)

    values, vectors = np.linalg.eigh(variance)
    told = values > _UNTOLD * values.max()
    statistic = float(np.sum((vectors.T @ difference)[told] ** 2 / values[told]))
    dof = int(told.sum())
    return nuisances, Compatibility(statistic, dof, float(chi2.sf(statistic, dof)))


def fitted_in_sigma(fit: Fit, dataset: Dataset) -> tuple[float, ...]:
    """Return the nuisances of a fit in units of the sigma of their auxiliary measurements."""
    per_sigma = np.sqrt(GaussianPenalty.of_nuisances(dataset).precision)
    return tuple(float(x) for x in join_nuisances(fit, dataset) * per_sigma)


def difference_variance(dataset: Dataset, nu: Float64) -> Float64:
    """Return the variance of nu_hat - nu0, both in the units of the fit."""
    response = dataset.reference_response
    growth = np.exp(nuisance_shift(response, nu))
    moments = ScoreMoments.of(nuisance_slopes(response, nu).astype(np.float32), dataset.weights, growth)
    F, C = moments.information, moments.reference_variance
    precision = GaussianPenalty.of_nuisances(dataset).precision
    inverse = np.linalg.inv(F + np.diag(precision))
    return np.asarray(inverse @ (F + C + (F / precision) @ F) @ inverse)
