"""Small toys: cheap enough that a test can run hundreds, real in every other respect.

Tests that are meant to go wrong are settings too, so that worker processes can be handed them.
"""

import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from covad.nplm.dataset import Response
from covad.nplm.fit import NplmTest, Status, TauFit
from covad.toys import latent_world as latent
from covad.toys.drawing import LatentEvents, LatentSource
from covad.toys.ensembles import Draw, Ensemble, Stream, Treatment, TunedTest
from covad.toys.pools import Pool, Pools
from covad.toys.tests import TunedConvex

CHEAP = TunedConvex(bumps=5, expected=200.0, reference=1000)


def small_draw(**changes: Any) -> Draw:
    draw = Draw("latent", Treatment.PROFILED, expected=200, n_reference=1000, nu=(0.0,))
    return replace(draw, **changes)


def small_ensemble(
    test: TunedTest = CHEAP, seed: int = 1, stream: Stream = Stream.TOYS, **changes: Any
) -> Ensemble:
    return Ensemble(small_draw(**changes), test, LatentSource(1), seed, stream)


def results(toys: Any) -> list[dict[str, Any]]:
    """Everything of the toys but the time that they took."""
    return [{k: v for k, v in vars(toy).items() if not k.endswith("seconds")} for toy in toys]


def latent_sample(z: Any) -> LatentEvents:
    return LatentEvents(z, Response(latent.response(z, 1)))


def latent_pools(size: int = 2000, seed: int = 5, prior: tuple[float, ...] = ()) -> Pools:
    """Pools of the latent world: background at three nu, the signal at two; smaller ones at the prior's."""
    rng = np.random.default_rng(seed)
    fresh = latent.background(size, rng)
    return Pools(
        reference=Pool(latent_sample(fresh)),
        basis=latent.background(500, rng),
        data={
            (float(nu),): Pool(
                latent_sample(latent.tilted_background(size, np.array([nu]), rng)), yield_ratio=1.0 + 0.1 * nu
            )
            for nu in (0, 1, -1)
        },
        signals={"bump": {(nu,): Pool(latent_sample(latent.signal(300, rng))) for nu in (0.0, 1.0)}},
        prior={
            (nu,): Pool(
                latent_sample(latent.tilted_background(size / 4, np.array([nu]), rng)),
                yield_ratio=1.0 + 0.1 * nu,
            )
            for nu in prior
        },
    )


def weighted_pool(n: int, rng: np.random.Generator, spread: float = 0.8) -> Pool:
    """Background whose weights are log-normal and vary along z."""
    z, weights = latent.weighted_background(n, rng, spread, tilt=0.3)
    return Pool(replace(latent_sample(z), weights=weights))


def weighted_pools(size: int = 2000, seed: int = 5, spread: float = 0.8) -> Pools:
    """Pools of weighted events: the reference keeps its weights, data are accepted in proportion to them."""
    rng = np.random.default_rng(seed)
    return Pools(
        reference=weighted_pool(size, rng, spread),
        basis=latent.background(500, rng),
        data={(0.0,): weighted_pool(10 * size, rng, spread).unweighted(seed)},
        signals={"bump": {(0.0,): Pool(latent_sample(latent.signal(300, rng)))}},
    )


@dataclass(frozen=True)
class Mishap:
    """The convex test, except that toys whose number of data events is odd have a mishap."""

    kind: str
    marker: str = ""  # a file that counts how often it was run, where the mishap needs to know

    @property
    def capacity(self) -> float:
        return CHEAP.capacity

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def build(self, source: Any) -> NplmTest:
        return _MishapTest(CHEAP.build(source), self.kind, self.marker)


@dataclass(frozen=True)
class _MishapTest:
    inner: NplmTest
    kind: str
    marker: str

    def fit(self, dataset: Any, null: Any, seed: Any) -> TauFit:
        fit = self.inner.fit(dataset, null, seed)
        if self.kind == "slow":
            time.sleep(0.02)
        if len(dataset.data) % 2 == 0:
            return fit
        match self.kind:
            case "raise":
                raise ValueError("cannot be fitted")
            case "fail":
                return replace(fit, status=Status.FAILED)
            case "nan":
                return replace(fit, value=np.nan)
            case "minus one":
                return replace(fit, value=null.value - 1.0)
            case "budget":
                return replace(fit, status=Status.UNCONVERGED)
            case "die":
                os.kill(os.getpid(), 9)
            case "die once":
                if not Path(self.marker).exists():
                    Path(self.marker).touch()
                    os.kill(os.getpid(), 9)
        return fit
