"""Where the events of a toy come from: fresh from the latent world, or rows of pools.

N_D ~ Poisson, signal ~ Poisson on top, both at the same nu. Reference and data never share an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from covad import latent
from covad.errors import PlanError
from covad.nplm.dataset import Dataset, Float32, Response
from covad.toys import pools
from covad.toys.plan import Draw, Ensemble, ToySeeds, Treatment
from covad.toys.sample import Sample, assemble, true_nuisances

#: Raised with every change of the events that `covad.latent` draws.
LATENT_VERSION = 2
#: Events from which the features of the convex test are chosen.
FEATURE_EVENTS = 50_000
#: A bias of t beyond this share of the null's standard deviation deserves a warning.
TOLERATED_BIAS = 0.1


@dataclass(frozen=True)
class LatentSource:
    """Fresh events of the analytic latent world for every toy, with K nuisances: no pools, no bias."""

    n_nuisances: int = 1

    @property
    def fingerprint(self) -> str:
        return f"latent-{LATENT_VERSION}-{self.n_nuisances}"

    @property
    def n_features(self) -> int:
        return latent.N_FEATURES

    def draw(self, draw: Draw, seeds: ToySeeds) -> Dataset:
        if draw.signal not in (None, "signal"):
            raise PlanError(f"the latent world has one signal, 'signal', not '{draw.signal}'")
        truth = true_nuisances(draw, self.n_nuisances)
        reference = latent.background(draw.n_reference, np.random.default_rng(seeds.reference))
        rng = np.random.default_rng(seeds.data)
        data = latent.tilted_background(draw.expected, truth, rng)
        if draw.signal:
            data = np.concatenate([data, latent.signal(rng.poisson(draw.injected), rng)])
        return assemble(draw, self._sample(draw, reference), self._sample(draw, data), seeds)

    def _sample(self, draw: Draw, z: Float32) -> Sample:
        if draw.treatment is Treatment.NONE:
            return Sample(z, Response.none(len(z)))
        return Sample(z, Response(latent.response(z, self.n_nuisances)))

    def feature_events(self) -> Float32:
        return latent.background(FEATURE_EVENTS, np.random.default_rng(LATENT_VERSION))

    def pool_sizes(self, draw: Draw) -> tuple[int, int] | None:  # noqa: ARG002
        return None


@dataclass(frozen=True)
class PoolSource:
    """Rows of memory-mapped pools, without replacement; reference and data are different pools."""

    directory: Path
    fingerprint: str

    @classmethod
    def open(cls, directory: Path, verify: bool = True) -> PoolSource:
        """Pools of a directory, by default checked against their digests."""
        if verify:
            pools.verify(directory)
        return cls(directory.resolve(), pools.fingerprint(directory))

    @property
    def n_features(self) -> int:
        return int(self._pools().reference.sample.z.shape[1])

    def draw(self, draw: Draw, seeds: ToySeeds) -> Dataset:
        there = self._pools()
        true_nuisances(draw, there.reference.sample.response.n_nuisances)
        reference = there.reference.pick(draw.n_reference, np.random.default_rng(seeds.reference))
        rng = np.random.default_rng(seeds.data)
        data = there.background(draw.nu).pick_poisson(draw.expected, rng)
        if draw.signal:
            data = data.joined(there.signal(draw.signal, draw.nu).pick_poisson(draw.injected, rng))
        return assemble(draw, reference, data, seeds)

    def feature_events(self) -> Float32:
        return self._pools().features

    def pool_sizes(self, draw: Draw) -> tuple[int, int] | None:
        there = self._pools()
        return len(there.reference), len(there.background(draw.nu))

    def _pools(self) -> pools.Pools:
        return pools.open_pools(self.directory, self.fingerprint)


@dataclass(frozen=True)
class PoolBias:
    """Offset of t that all toys share because they share finite pools, and what it amounts to."""

    shift: float  # of the mean of t
    share: float  # of the null's standard deviation, sqrt(2 dof)

    @property
    def tolerable(self) -> bool:
        return self.share <= TOLERATED_BIAS


def pool_bias(ensemble: Ensemble) -> PoolBias:
    """dof * N_D (1/P_R + 1/P_D); zero for fresh events."""
    sizes = ensemble.source.pool_sizes(ensemble.draw)
    if sizes is None:
        return PoolBias(0.0, 0.0)
    dof = ensemble.test.degrees_of_freedom
    shift = dof * ensemble.draw.expected * sum(1.0 / size for size in sizes)
    return PoolBias(shift, float(shift / np.sqrt(2.0 * dof)))
