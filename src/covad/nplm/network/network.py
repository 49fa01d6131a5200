"""The paper's test: h is a network (eq:nplm-alt) whose weights stay in a box, maximised by bounded Newton."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from covad.errors import DatasetError
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Fit, Seed, Status, TauFit
from covad.nplm.likelihood import GaussianPenalty, join_nuisances, log_likelihood, split_nuisances
from covad.nplm.network.architecture import count_parameters
from covad.nplm.network.likelihood import NetworkLikelihood
from covad.nplm.network.packing import PackedEvents
from covad.nplm.network.rotation import Rotation
from covad.nplm.network.search import FULL_SEARCH, Search, TwoLevelSearch


@dataclass(frozen=True)
class NetworkTest:
    """h as a fully connected network with |w| <= clip for all weights and biases."""

    clip: float
    widths: tuple[int, ...] = (4, 4, 4, 1)
    search: Search = FULL_SEARCH

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1 or self.widths[-1] != 1:
            raise DatasetError(f"the network's widths must be positive and end in 1, not {self.widths}")
        if not (np.isfinite(self.clip) and self.clip > 0):
            raise DatasetError(f"the weight clipping W must be positive, not {self.clip}")

    @property
    def n_parameters(self) -> int:
        return count_parameters(self.widths)

    def limits(self, dataset: Dataset) -> Float64:
        """Return the bounds |theta| <= limits: W for the network, infinity for the nuisances."""
        if dataset.n_dimensions != self.widths[0]:
            raise DatasetError(
                f"the data have {dataset.n_dimensions} dimensions, the network takes {self.widths[0]}"
            )
        n_nuisances = dataset.n_nuisances + (dataset.normalisation is not None)
        return np.append(np.full(self.n_parameters, self.clip), np.full(n_nuisances, np.inf))

    def likelihood(self, dataset: Dataset, dtype: type[np.floating[Any]] = np.float32) -> NetworkLikelihood:
        """Return log L of the dataset as a function of the weights and the nuisances."""
        return NetworkLikelihood(
            PackedEvents.of(dataset), self.widths, GaussianPenalty.of_nuisances(dataset), dtype
        )

    def nulls(
        self,
        sample: Dataset,  # noqa: ARG002
        nu: Float64 | None = None,  # noqa: ARG002
        n_reference: int | None = None,  # noqa: ARG002
        further: Float64 | None = None,  # noqa: ARG002
    ) -> None:
        """Return nothing: no law of t is known without toys."""
        return

    def h(self, parameters: Float64, z: Float32) -> Float64:
        """Return h(z) of each event, in float64."""
        a, first = z.astype(np.float64), 0
        for n_in, n_out in pairwise(self.widths):
            layer = parameters[first : first + n_out * (n_in + 1)].reshape(n_out, n_in + 1)
            a, first = a @ layer[:, :-1].T + layer[:, -1], first + layer.size
            if first < self.n_parameters:
                a = 1.0 / (1.0 + np.exp(-np.clip(a, -700.0, 700.0)))
        return np.asarray(a[:, 0])

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        """Maximise tau from the starts of the search."""
        clock = time.process_time()
        limits, nuisances = self.limits(dataset), join_nuisances(null, dataset)
        sample, penalty = PackedEvents.of(dataset), GaussianPenalty.of_nuisances(dataset)
        rotation = Rotation.of(dataset, sample, nuisances)
        if rotation is None:
            likelihood = NetworkLikelihood(sample, self.widths, penalty)
        else:
            likelihood = NetworkLikelihood(
                rotation.sample(sample), self.widths, rotation.penalty(penalty), n_coupled=rotation.n_coupled
            )
            nuisances = rotation.inverse @ nuisances
        search = TwoLevelSearch(likelihood, limits, self.search, np.random.default_rng(seed))
        end = search.run(nuisances)
        theta = end.theta
        if rotation is not None:
            weights, u = np.split(theta, [self.n_parameters])
            theta = np.append(weights, rotation.matrix @ u)
        return self.fit_at(theta, dataset, null, end.status, likelihood.evaluations, clock)

    def fit_at(
        self, theta: Float64, dataset: Dataset, null: Fit, status: Status, evaluations: int, clock: float
    ) -> TauFit:
        """Return tau in float64 at theta, or at h = 0 if that is higher: t is never negative."""
        weights, nuisances = np.split(theta, [self.n_parameters])
        h_data, h_reference = self.h(weights, dataset.data), self.h(weights, dataset.reference)
        value = 2.0 * log_likelihood(dataset, h_data, h_reference, nuisances)
        if not value >= null.value:
            value, weights, nuisances = null.value, np.zeros_like(weights), join_nuisances(null, dataset)
            h_data, h_reference = np.zeros_like(h_data), np.zeros_like(h_reference)
        nu, nu_norm = split_nuisances(nuisances, dataset.n_nuisances)
        return TauFit(
            value=value,
            nu=nu,
            nu_norm=nu_norm,
            status=status,
            evaluations=evaluations,
            seconds=time.process_time() - clock,
            parameters=weights,
            active_bounds=int(np.sum(np.abs(weights) >= self.clip)),
            h_data=h_data.astype(np.float32),
            h_reference=h_reference.astype(np.float32),
        )
