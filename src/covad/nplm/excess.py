"""Where the excess lies: h(z) of the convex fit, with its uncertainty from the Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.nplm.convex import ConvexAlternative, ConvexProblem
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.features import evaluate
from covad.nplm.fit import AlternativeFit
from covad.nplm.likelihood import join_nuisances, nuisance_shift, nuisance_slopes
from covad.nplm.null import ScoreMoments


@dataclass(frozen=True)
class ExcessMap:
    """log density ratio h at some events, and the standard deviation of its estimate.

    The ridge shrinks h, so h +- sigma does not cover a true excess; but under the null h is centred at zero,
    and h / sigma is a local significance.
    """

    h: Float64
    sigma: Float64


def excess_map(
    alternative: ConvexAlternative, dataset: Dataset, fit: AlternativeFit, events: Float32
) -> ExcessMap:
    """h and its uncertainty at `events`, which need not belong to the dataset."""
    phi = evaluate(alternative.features, events).astype(np.float64)
    covariance = feature_covariance(alternative, dataset, fit)
    variance = np.einsum("ij,jk,ik->i", phi, covariance, phi, optimize=True)
    return ExcessMap(phi @ fit.parameters, np.sqrt(np.maximum(variance, 0.0)))


def feature_covariance(alternative: ConvexAlternative, dataset: Dataset, fit: AlternativeFit) -> Float64:
    """Covariance of a, nuisances profiled: H^-1 V H^-1 at the maximum, with the H and V of `null`."""
    problem = ConvexProblem.of(alternative, dataset)
    n = problem.n_features
    nu = join_nuisances(fit, dataset)
    response = dataset.reference_response
    columns = np.hstack([problem.reference[:, :n], nuisance_slopes(response, nu).astype(np.float32)])
    f = fit.h_reference.astype(np.float64) + nuisance_shift(response, nu)
    moments = ScoreMoments.of(columns, dataset.weights, np.exp(f))
    auxiliary = np.diag(problem.auxiliary.precision)
    inverse = np.linalg.inv(moments.information + auxiliary + np.diag(problem.ridge))
    variance = moments.information + moments.reference_variance + auxiliary
    covariance: Float64 = (inverse @ variance @ inverse)[:n, :n]
    return covariance
