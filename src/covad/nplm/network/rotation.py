"""Coordinates of many nuisances in which few of them meet the network, so that only these enter the curvature.

Around the Delta fit the nuisances have the information F and the curvature H = F + A. There are coordinates u,
nu = V u, in which H is a multiple of one, F is diagonal, and the shares s of F in H fall: the first ones the
data tell, the others the auxiliary measurements alone. How far a direction and the network can stand in for
each other is limited by s: a Newton step that takes directions of small s for independent of the network
leaves a share of at most s of the error, and value and gradient are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from covad.nplm.dataset import Dataset, Float64
from covad.nplm.likelihood import ColumnLikelihood, GaussianPenalty
from covad.nplm.network.packing import PackedEvents

#: Share of the information beyond which a direction is coupled to the network.
COUPLED = 0.2
#: Curvature of every direction: so stiff that the damping of the weights hardly slows them.
STIFFNESS = 100.0


@dataclass(frozen=True)
class Rotation:
    """nu = matrix . u, with the nuisances in the order of the fits; the first `n_coupled` u meet the network."""

    matrix: Float64
    inverse: Float64
    shares: Float64
    n_coupled: int

    @classmethod
    def of(cls, dataset: Dataset, sample: PackedEvents, nu: Float64) -> Rotation:
        """Choose the coordinates of a dataset, whose events are in `sample`, at the nuisances of its Delta fit."""
        penalty = GaussianPenalty.of_nuisances(dataset)
        columns = sample.columns()[len(dataset.data) :]
        likelihood = ColumnLikelihood(columns, dataset.weights, np.zeros(len(nu)), penalty)
        curvature = likelihood.sketch(nu).curvature
        shares, vectors = eigh(curvature - penalty.curvature, curvature)
        order = np.argsort(-shares, kind="stable")
        shares, vectors = shares[order], vectors[:, order]
        return cls(
            matrix=vectors * np.sqrt(STIFFNESS),
            inverse=(vectors.T @ curvature) / np.sqrt(STIFFNESS),
            shares=shares,
            n_coupled=int(np.count_nonzero(shares > COUPLED)),
        )

    def sample(self, sample: PackedEvents) -> PackedEvents:
        """Return the events with the response to u in place of nu; the normalisation is one of them."""
        linear = sample.columns() @ self.matrix.astype(np.float32)
        return PackedEvents(sample.z, linear, None, sample.observed, sample.expected, normalisation=False)

    def penalty(self, penalty: GaussianPenalty) -> GaussianPenalty:
        """Return the auxiliary terms as a function of u."""
        return GaussianPenalty(self.inverse @ penalty.centre, STIFFNESS * (1.0 - self.shares))
