"""Toys that are wrong on purpose, each in one way that a search could be wrong in. The suite must notice.

Small sources and settings that wrap the real ones, so that worker processes can be handed them; nothing in
covad itself can be switched to any of this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covad.nplm.adaptive.shared import ReferenceSample
from covad.nplm.dataset import Dataset, Float32, Response
from covad.nplm.fit import Fit, NplmTest, Seed, TauFit
from covad.nplm.likelihood import ColumnLikelihood, GaussianPenalty, nuisance_columns, split_nuisances
from covad.nplm.maximise import maximise
from covad.toys import latent_world as latent
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import Draw, Ensemble, PoolSizes, Source, ToySeeds
from covad.toys.tests import ChosenConvex, TunedConvex


@dataclass(frozen=True)
class BrokenSource:
    """The latent world, except for one fault."""

    fault: str

    @property
    def right(self) -> LatentSource:
        return LatentSource(1)

    @property
    def digest(self) -> str:
        return f"{self.right.digest}, {self.fault}"

    def digest_of(self, draw: Draw) -> str:
        return self.digest

    @property
    def n_dimensions(self) -> int:
        return self.right.n_dimensions

    def basis_events(self) -> Float32:
        return self.right.basis_events()

    def reference_sample(self, n_events: int) -> ReferenceSample:
        return self.right.reference_sample(n_events)

    @property
    def reference_share(self) -> float:
        return self.right.reference_share

    def pool_sizes(self, draw: Draw) -> PoolSizes | None:
        return self.right.pool_sizes(draw)

    def check(self, draw: Draw) -> None:
        self.right.check(draw)

    def throw(self, draw: Draw, seeds: ToySeeds) -> Draw:
        return self.right.throw(draw, seeds)

    def draw(self, draw: Draw, seeds: ToySeeds) -> Dataset:
        dataset = self.right.draw(draw, seeds)
        match self.fault:
            case "weights 2 % too large":
                return replace(dataset, weights=1.02 * dataset.weights)
            case "number of data fixed":
                return _with_data(dataset, latent.background(round(draw.expected), _generator(seeds)))
            case "reference reused as data":
                return _with_data(dataset, dataset.reference[: len(dataset.data)])
            case "auxiliary value of nu_N around 0":
                right = dataset.normalisation
                return replace(
                    dataset, normalisation=replace(right, measured=right.measured - draw.true_norm)
                )
            case "events of another toy":
                return self.right.draw(draw, Ensemble(draw, TunedConvex(), self.right, 0).seeds(0))
            case _:
                raise ValueError(self.fault)


def _generator(seeds: ToySeeds) -> np.random.Generator:
    return np.random.default_rng(seeds.data)


def _with_data(dataset: Dataset, z: Float32) -> Dataset:
    return replace(dataset, data=z, data_response=Response(latent.response(z, dataset.n_nuisances)))


@dataclass(frozen=True)
class CollidingEnsemble(Ensemble):
    """Two toys have one seed, as where toys are seeded from a clock."""

    def seeds(self, index: int) -> ToySeeds:
        return super().seeds(index // 2)


@dataclass(frozen=True)
class NuisancesAlone:
    """No h: only the fitted nuisances, for pulls; the fault is to fit them without their auxiliary terms."""

    auxiliary_terms: bool = True

    @property
    def capacity(self) -> float:
        return 0.0

    @property
    def name(self) -> str:
        return "nuisances alone"

    @property
    def n_parameters(self) -> int:
        return 0

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name, "auxiliary_terms": self.auxiliary_terms}

    def build(self, source: Source) -> NplmTest:
        return self

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        fit = null if self.auxiliary_terms else _without_auxiliary_terms(dataset, null)
        no_h = dict.fromkeys(("parameters", "h_data", "h_reference"), np.empty(0, dtype=np.float32))
        return TauFit(**vars(fit), **no_h, active_bounds=0)


def _without_auxiliary_terms(dataset: Dataset, null: Fit) -> Fit:
    reference, data = (
        nuisance_columns(r, normalisation=True) for r in (dataset.reference_response, dataset.data_response)
    )
    nothing = np.zeros(reference.shape[1])
    no_terms = GaussianPenalty(nothing, nothing)
    best = maximise(ColumnLikelihood(reference, dataset.weights, data.sum(axis=0), no_terms), nothing)
    nu, nu_norm = split_nuisances(best.theta, dataset.n_nuisances)
    return replace(null, nu=nu, nu_norm=nu_norm)


@dataclass(frozen=True)
class NanBecomesMinusOne:
    """The convex test, except that in toys with an odd number of data the fit is lost and t is set to -1."""

    right: ChosenConvex
    name: str = "lost fits become t = -1"

    @property
    def capacity(self) -> float:
        return self.right.capacity

    def describe(self) -> dict[str, Any]:
        return {**self.right.describe(), "kind": self.name}

    def build(self, source: Source) -> NplmTest:
        return _LostFits(self.right.build(source))


@dataclass(frozen=True)
class _LostFits:
    right: NplmTest

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        fit = self.right.fit(dataset, null, seed)
        value = fit.value if len(dataset.data) % 2 == 0 else np.nan
        return replace(fit, value=float(np.nan_to_num(value, nan=null.value - 1.0)))
