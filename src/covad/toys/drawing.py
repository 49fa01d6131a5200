"""Where the events of a toy come from: fresh from the latent world, or rows of pools.

N_D ~ Poisson, signal ~ Poisson on top, both at the same nu. Reference and data never share an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from covad.errors import PlanError, TooFewEventsError
from covad.nplm.adaptive.shared import ReferenceSample
from covad.nplm.dataset import Dataset, Float32, Float64, Normalisation, Response
from covad.settings import Nu
from covad.toys import latent_world as latent
from covad.toys import pool_files, pools
from covad.toys.ensembles import Draw, Ensemble, PoolSizes, ToySeeds, Treatment, throw_nuisances
from covad.toys.pools import LatentEvents

#: Raised with every change of the events that `covad.toys.latent_world` draws.
LATENT_VERSION = 2
#: Events from which the basis of the convex test is chosen.
BASIS_EVENTS = 50_000
#: An offset of t beyond this share of the null's standard deviation deserves a warning.
TOLERATED_OFFSET = 0.1
#: Relative spread of the variance of the score, over toys, that the law of t bears.
_UNEVEN = 0.05
#: Standard deviations of a Poisson number that a pool must be able to serve.
_MARGIN = 6.0


def true_nuisances(draw: Draw, n_nuisances: int) -> Float64:
    """Return nu of the draw as an array; raise if the source has another number of nuisances."""
    if len(draw.nu) != n_nuisances:
        raise PlanError(f"nu = {list(draw.nu)} has {len(draw.nu)} values, the source {n_nuisances} nuisances")
    return np.array(draw.nu, dtype=np.float64)


def assemble(draw: Draw, reference: LatentEvents, data: LatentEvents, seeds: ToySeeds) -> Dataset:
    """Make one toy, with auxiliary values thrown around the truth: nu0 ~ N(nu, S), nu_N0 ~ N(nu_N, sigma)."""
    rng = np.random.default_rng(seeds.auxiliary)
    correlation = None if draw.correlation is None else np.array(draw.correlation)
    measured = latent.throw_auxiliary(np.array(draw.nu), correlation, rng)
    normalisation = None
    if draw.normalisation_sigma is not None:
        thrown = float(rng.normal(draw.true_norm, draw.normalisation_sigma))
        normalisation = Normalisation(draw.normalisation_sigma, thrown)
    if draw.treatment is Treatment.NONE:
        measured, normalisation, correlation = np.empty(0), None, None
    return Dataset(
        reference=reference.z,
        data=data.z,
        weights=reference.weights_for(draw.expected),
        reference_response=known_response(draw, reference),
        data_response=known_response(draw, data),
        measured=measured,
        normalisation=normalisation,
        correlation=correlation,
    )


def draw_from(there: pools.Pools, draw: Draw, seeds: ToySeeds) -> Dataset:
    """Return one toy of rows of pools: which ones depends on the sizes of the pools, not on their columns."""
    true_nuisances(draw, there.reference.sample.response.n_nuisances)
    reference = there.reference.pick(draw.n_reference, np.random.default_rng(seeds.reference))
    rng = np.random.default_rng(seeds.data)
    data = there.background(draw.nu, draw.prior).pick_poisson(draw.expected_background, rng)
    if draw.signal:
        data = data.joined(there.signal(draw.signal, draw.nu).pick_poisson(draw.injected, rng))
    return assemble(draw, reference, data, seeds)


def known_response(draw: Draw, events: LatentEvents) -> Response:
    """Return as much of the response as the treatment and the order let the test know."""
    if draw.treatment is Treatment.NONE:
        return Response.none(len(events))
    if draw.response_order == 1:
        return Response(events.response.linear)
    if events.response.quadratic is None:
        raise PlanError("response order 2 needs a source with quadratic response columns: use order 1")
    return events.response


@dataclass(frozen=True)
class LatentSource:
    """Fresh events of the analytic latent world for every toy, with K nuisances: no pools, no offset."""

    n_nuisances: int = 1

    @property
    def digest(self) -> str:
        return f"latent-{LATENT_VERSION}-{self.n_nuisances}"

    def digest_of(self, draw: Draw) -> str:  # noqa: ARG002
        return self.digest

    @property
    def n_dimensions(self) -> int:
        return latent.N_DIMENSIONS

    def throw(self, draw: Draw, seeds: ToySeeds) -> Draw:
        rng = np.random.default_rng(seeds.truth)
        return draw.thrown(throw_nuisances(self.n_nuisances, rng, draw.correlation), rng)

    def draw(self, draw: Draw, seeds: ToySeeds) -> Dataset:
        self.check(draw)
        truth = true_nuisances(draw, self.n_nuisances)
        reference = latent.background(draw.n_reference, np.random.default_rng(seeds.reference))
        rng = np.random.default_rng(seeds.data)
        data = latent.tilted_background(draw.expected_background, truth, rng)
        if draw.signal:
            data = np.concatenate([data, latent.signal(rng.poisson(draw.injected), rng)])
        return assemble(draw, self._sample(draw, reference), self._sample(draw, data), seeds)

    def _sample(self, draw: Draw, z: Float32) -> LatentEvents:
        if draw.treatment is Treatment.NONE:
            return LatentEvents(z, Response.none(len(z)))
        return LatentEvents(z, Response(latent.response(z, self.n_nuisances)))

    def basis_events(self) -> Float32:
        return latent.background(BASIS_EVENTS, np.random.default_rng(LATENT_VERSION))

    def reference_sample(self, n_events: int) -> ReferenceSample:
        z = latent.background(n_events, np.random.default_rng([LATENT_VERSION, 1]))
        return ReferenceSample(z, Response(latent.response(z, self.n_nuisances)))

    @property
    def reference_share(self) -> float:
        return 1.0

    def pool_sizes(self, draw: Draw) -> PoolSizes | None:  # noqa: ARG002
        return None

    def check(self, draw: Draw) -> None:
        """Raise if the draw asks for another signal; fresh events never run out."""
        if draw.signal not in (None, latent.SIGNAL):
            raise PlanError(f"the latent world has one signal, '{latent.SIGNAL}', not '{draw.signal}'")


@dataclass(frozen=True)
class PoolSource:
    """Rows of memory-mapped pools, without replacement; reference and data are different pools."""

    directory: Path
    digest: str

    @classmethod
    def open(cls, directory: Path, verify: bool = True) -> PoolSource:
        """Return the source of a directory of pools, by default checked against their digests."""
        if verify:
            pool_files.verify(directory)
        return cls(directory.resolve(), pool_files.pools_digest(directory))

    def digest_of(self, draw: Draw) -> str:
        nu = None if draw.prior else draw.nu
        return pool_files.digest_of(self.directory, self.digest, nu, draw.signal)

    @property
    def n_dimensions(self) -> int:
        return int(self._pools().reference.sample.z.shape[1])

    def throw(self, draw: Draw, seeds: ToySeeds) -> Draw:
        """Throw one of the points of the prior that pools exist at."""
        points = list(self._prior())
        rng = np.random.default_rng(seeds.truth)
        return draw.thrown(points[int(rng.integers(len(points)))], rng)

    def draw(self, draw: Draw, seeds: ToySeeds) -> Dataset:
        return draw_from(pool_files.open_verified(self.directory, self.digest), draw, seeds)

    def basis_events(self) -> Float32:
        return pool_files.open_verified(self.directory, self.digest).basis

    def reference_sample(self, n_events: int) -> ReferenceSample:
        pool = pool_files.open_verified(self.directory, self.digest).reference
        some = pool.pick(min(n_events, len(pool)), np.random.default_rng(len(pool)))
        return ReferenceSample(some.z, some.response, some.weights)

    def costs(self) -> list[tuple[str, Nu, pools.Cost]]:
        """Return what accept-reject cost the pools, by name and nu; nothing if events had no weights."""
        return pool_files.read_unchanged(self.directory, self.digest).costs

    def reference_events(self) -> Float32:
        """Return z of all reference events."""
        return self._pools().reference.sample.z

    @property
    def reference_share(self) -> float:
        return self._pools().reference.effective_share

    def pool_sizes(self, draw: Draw) -> PoolSizes | None:
        there = self._pools()
        background, reference = there.background(draw.nu), there.reference
        data, signed = background.worth, background.signed_variance
        if draw.prior:  # parts of the data, over which the offset averages: their number under a root
            smallest = min(self._prior().values(), key=lambda pool: pool.worth)
            data, signed = float(int(np.sqrt(data * smallest.worth))), smallest.signed_variance
        return PoolSizes(len(reference), reference.worth, data, reference.signed_variance + signed)

    def check(self, draw: Draw) -> None:
        """Raise if a toy may need more events than a pool has."""
        there = self._pools()
        if draw.prior:
            data = min(self._prior().values(), key=lambda pool: len(pool) / pool.yield_ratio)
        else:
            data = there.background(draw.nu)
        needed = largest_number(draw.largest.expected_background * data.yield_ratio)
        needs = [
            ("reference", "source.splits.reference", there.reference, float(draw.n_reference)),
            ("prior" if draw.prior else "data", "source.splits.data", data, needed),
        ]
        if draw.signal:
            signal = there.signal(draw.signal, draw.nu)
            needed = largest_number(draw.injected * signal.yield_ratio)
            needs.append((draw.signal, f"source.signals.{draw.signal}", signal, needed))
        where = "a point of the prior" if draw.prior else f"nu = {list(draw.nu)}"
        for name, key, pool, need in needs:
            if len(pool) >= need:
                continue
            has, enough = f"{len(pool)} events", "use larger pools (source.splits)"
            if pool.cost is not None:
                has = f"{len(pool)} events of equal weight, accepted of {pool.cost.events},"
                times = np.ceil(10.0 * need / max(len(pool), 1)) / 10.0
                enough = f"use {times:.1f} times as many events ({key})"
                enough += ", or set prior to false" if draw.prior else ""
            raise TooFewEventsError(
                f"{self.directory}: the pool '{name}' has {has} at {where}, "
                f"but toys may need {need:.0f}: {enough}, or smaller sizes"
            )
        worth = draw.n_reference * there.reference.effective_share
        uneven = there.reference.unevenness(draw.n_reference) / (1.0 + worth / draw.expected_background)
        if uneven > _UNEVEN:
            raise TooFewEventsError(
                f"{self.directory}: the weights of the pool 'reference' are too uneven: {draw.n_reference} "
                f"events are worth {worth:.0f}, and their noise makes the variance of the score differ by "
                f"{100 * uneven:.0f} % between toys, where {100 * _UNEVEN:.0f} % are tolerated: raise "
                "sizes.reference, or use more even weights"
            )

    def _pools(self) -> pools.Pools:
        return pool_files.open_pools(self.directory, self.digest)

    def _prior(self) -> Mapping[Nu, pools.Pool]:
        """Return the pools at points of the prior; raise PlanError if there are none."""
        found = self._pools().prior
        if not found:
            raise PlanError(f"{self.directory}: there are no pools for toys of the prior; set prior to false")
        return found


def largest_number(mean: float) -> float:
    """Return what the Poisson number of events of a toy practically never exceeds."""
    return mean + _MARGIN * float(np.sqrt(mean))


@dataclass(frozen=True)
class PoolOffset:
    """Root mean square, over pools, of the error of the mean t of toys that all draw from the same ones."""

    t: float
    share: float  # of the null's standard deviation, sqrt(2 capacity)

    @property
    def tolerable(self) -> bool:
        return self.share <= TOLERATED_OFFSET


def pool_offset(ensemble: Ensemble) -> PoolOffset:
    """Return the offset f = (1/P_D + 1/P_R) / (1/N_D + 1/N_R) of the null's standard deviation; 0 if fresh.

    A toy takes no event of a pool twice, so that it is a fair sample of the world, and t has no bias over
    worlds. But all toys of a run lie around the same two pools: the share f of the variance of the score is
    common to them. Its square has the mean f times the capacity c, by which the rest is smaller, and the
    standard deviation f sqrt(2 c). (Drawn with replacement, t would be biased by f c.)

    With weights, sizes are effective ones. Signs of weights add the share b to the variance that is common,
    but take nothing from the rest: over worlds t is larger by b c, which adds to the offset in quadrature.
    """
    sizes = ensemble.source.pool_sizes(ensemble.draw)
    if sizes is None:
        return PoolOffset(0.0, 0.0)
    draw = ensemble.draw
    n_reference = draw.n_reference * ensemble.source.reference_share
    own = 1.0 / draw.expected_background + 1.0 / n_reference
    common = (1.0 / sizes.reference + 1.0 / sizes.data) / own
    signed = sizes.signed_variance / own
    capacity = round(ensemble.test.capacity)
    share = float(np.hypot(common, signed * np.sqrt(capacity / 2.0)))
    return PoolOffset(float(np.sqrt(2.0 * capacity)) * share, share)


def point_offset(ensemble: Ensemble) -> float:
    """Return the offset, in standard deviations of the null, that toys at one point of the prior share.

    What they share with toys at other points, by the reference, is left out.
    """
    source, draw = ensemble.source, ensemble.draw
    all_events, under_root = (source.pool_sizes(replace(draw, prior=prior)) for prior in (False, True))
    if all_events is None or under_root is None:
        return 0.0
    own = 1.0 / draw.expected_background + 1.0 / (draw.n_reference * source.reference_share)
    return all_events.data / under_root.data**2 / own
