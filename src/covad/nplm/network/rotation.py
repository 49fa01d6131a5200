"""Coordinates of many nuisances in which few of them are coupled to the network.

Around the Delta fit the nuisances have the information F and the curvature H = F + A. There are coordinates
u, nu = V u, in which H is a multiple of one, F is diagonal, and the shares s of F in H fall: the data tell
the first directions, the auxiliary measurements alone the last. How far a direction and the network can stand
in for each other is limited by s. So only directions of large s enter the curvature at every step; how the
others are coupled is not known to the first climbs, and estimated once for each of the last. Value and
gradient are exact, so that the end is a maximum all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from covad.nplm.dataset import Dataset, Float64
from covad.nplm.likelihood import MANY, ColumnLikelihood, GaussianPenalty
from covad.nplm.network.packing import PackedEvents

#: Share of the information beyond which a direction is coupled to the network.
COUPLED = 0.2
#: Curvature of every direction: so stiff that the damping of the weights hardly slows them.
STIFFNESS = 100.0


@dataclass(frozen=True)
class Rotation:
    """nu = matrix . u, nuisances in the order of the fits; the first `n_coupled` of u are coupled."""

    matrix: Float64
    inverse: Float64
    shares: Float64
    n_coupled: int

    @classmethod
    def of(cls, dataset: Dataset, sample: PackedEvents, nu: Float64) -> Rotation | None:
        """Choose the coordinates of a dataset, packed as `sample`, at the nuisances of its Delta fit.

        Return None where there are none to choose: few nuisances, a quadratic response, or a likelihood that
        overflows.
        """
        if dataset.n_nuisances <= MANY or sample.quadratic is not None:
            return None
        penalty = GaussianPenalty.of_nuisances(dataset)
        columns = sample.columns()[len(dataset.data) :]
        likelihood = ColumnLikelihood(columns, dataset.weights, np.zeros(len(nu)), penalty)
        with np.errstate(over="ignore", invalid="ignore"):
            curvature = likelihood.sketch(nu)
        try:
            shares, vectors = eigh(curvature - penalty.curvature, curvature)
        except (np.linalg.LinAlgError, ValueError):
            return None
        order = np.argsort(-shares, kind="stable")
        shares, vectors = shares[order], vectors[:, order]
        return cls(
            matrix=vectors * np.sqrt(STIFFNESS),
            inverse=(vectors.T @ curvature) / np.sqrt(STIFFNESS),
            shares=shares,
            n_coupled=int(np.count_nonzero(shares > COUPLED)),
        )

    @np.errstate(over="ignore", invalid="ignore")
    def sample(self, sample: PackedEvents) -> PackedEvents:
        """Return the events with the response to u in place of nu; the normalisation is one of them."""
        linear = sample.columns() @ self.matrix.astype(np.float32)
        return PackedEvents(sample.z, linear, None, sample.observed, sample.expected, normalisation=False)

    def penalty(self, penalty: GaussianPenalty) -> GaussianPenalty:
        """Return the auxiliary terms as a function of u."""
        return GaussianPenalty(self.inverse @ penalty.centre, STIFFNESS * (1.0 - self.shares))
