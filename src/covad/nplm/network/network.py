"""The network as the alternative (eq:nplm-alt): maximised by Newton, or trained as in the paper."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from covad.errors import DatasetError
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Fit, Seed, Status, TauFit
from covad.nplm.likelihood import GaussianPenalty, join_nuisances, log_likelihood, split_nuisances
from covad.nplm.network.adam import PAPER_TRAINING, AdamSettings, train
from covad.nplm.network.architecture import count_parameters
from covad.nplm.network.likelihood import NetworkLikelihood
from covad.nplm.network.packing import PackedEvents
from covad.nplm.network.search import DEFAULT_SEARCH, Search, TwoLevelSearch


@dataclass(frozen=True)
class BoxedNetwork:
    """A fully connected network whose weights and biases stay inside |w| <= clip."""

    widths: tuple[int, ...] = (4, 4, 4, 1)
    clip: float = 1.4

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1 or self.widths[-1] != 1:
            raise DatasetError(f"the network's widths must be positive and end in 1, not {self.widths}")
        if not (np.isfinite(self.clip) and self.clip > 0):
            raise DatasetError(f"the weight clipping W must be positive, not {self.clip}")

    @property
    def n_parameters(self) -> int:
        return count_parameters(self.widths)

    def limits(self, dataset: Dataset) -> Float64:
        """|theta| <= limits: W for the network, nothing for the nuisances."""
        if dataset.n_dimensions != self.widths[0]:
            raise DatasetError(
                f"the data have {dataset.n_dimensions} dimensions, the network takes {self.widths[0]}"
            )
        n_nuisances = dataset.n_nuisances + (dataset.normalisation is not None)
        return np.append(np.full(self.n_parameters, self.clip), np.full(n_nuisances, np.inf))

    def likelihood(self, dataset: Dataset, dtype: type[np.floating[Any]] = np.float32) -> NetworkLikelihood:
        return NetworkLikelihood(
            PackedEvents.of(dataset), self.widths, GaussianPenalty.of_nuisances(dataset), dtype
        )

    def output(self, parameters: Float64, z: Float32) -> Float64:
        """h(z) of each event, in float64."""
        a, first = z.astype(np.float64), 0
        for n_in, n_out in pairwise(self.widths):
            layer = parameters[first : first + n_out * (n_in + 1)].reshape(n_out, n_in + 1)
            a, first = a @ layer[:, :-1].T + layer[:, -1], first + layer.size
            if first < self.n_parameters:
                a = 1.0 / (1.0 + np.exp(-np.clip(a, -700.0, 700.0)))
        return np.asarray(a[:, 0])


@dataclass(frozen=True)
class NetworkTest(BoxedNetwork):
    """tau by bounded Newton from the starts of a search."""

    search: Search = DEFAULT_SEARCH
    name: ClassVar[str] = "network"

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        clock = time.process_time()
        limits = self.limits(dataset)
        likelihood = self.likelihood(dataset)
        search = TwoLevelSearch(likelihood, limits, self.search, np.random.default_rng(seed))
        end = search.run(join_nuisances(null, dataset))
        return _result(self, dataset, null, end.theta, end.status, likelihood.evaluations, clock)


@dataclass(frozen=True)
class AdamNetwork(BoxedNetwork):
    """tau by the paper's training, from the starting weights that PyTorch would draw.

    The paper has no test of convergence, so a training that ran to its last epoch counts as converged.
    """

    training: AdamSettings = PAPER_TRAINING
    name: ClassVar[str] = "adam"

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        clock = time.process_time()
        limits = self.limits(dataset)
        likelihood = self.likelihood(dataset)
        start = torch_start(self.widths, np.random.default_rng(seed))
        theta = train(likelihood, np.append(start, join_nuisances(null, dataset)), limits, self.training)
        status = Status.CONVERGED if np.isfinite(theta).all() else Status.FAILED
        return _result(self, dataset, null, theta, status, likelihood.evaluations, clock)


def torch_start(widths: tuple[int, ...], rng: np.random.Generator) -> Float64:
    """Uniform within 1/sqrt(inputs), weights and biases alike."""
    layers = [rng.uniform(-1.0, 1.0, n_out * (n_in + 1)) / np.sqrt(n_in) for n_in, n_out in pairwise(widths)]
    return np.concatenate(layers)


def _result(
    box: BoxedNetwork,
    dataset: Dataset,
    null: Fit,
    theta: Float64,
    status: Status,
    evaluations: int,
    clock: float,
) -> TauFit:
    """tau in float64 at theta, or at h = 0 if that is higher: t is never negative."""
    zeta, nuisances = np.split(theta, [box.n_parameters])
    h_data, h_reference = box.output(zeta, dataset.data), box.output(zeta, dataset.reference)
    value = 2.0 * log_likelihood(dataset, h_data, h_reference, nuisances)
    if not value >= null.value:
        value, zeta, nuisances = null.value, np.zeros_like(zeta), join_nuisances(null, dataset)
        h_data, h_reference = np.zeros_like(h_data), np.zeros_like(h_reference)
    nu, nu_norm = split_nuisances(nuisances, dataset.n_nuisances)
    return TauFit(
        value=value,
        nu=nu,
        nu_norm=nu_norm,
        status=status,
        evaluations=evaluations,
        seconds=time.process_time() - clock,
        parameters=zeta,
        active_bounds=int(np.sum(np.abs(zeta) >= box.clip)),
        h_data=h_data.astype(np.float32),
        h_reference=h_reference.astype(np.float32),
    )
