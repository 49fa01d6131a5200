"""Small toys: cheap enough that a test can run hundreds, real in every other respect.

Tests that are meant to go wrong are settings too, so that worker processes can be handed them.
"""

import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from covad.nplm.fit import Alternative, AlternativeFit, Status
from covad.toys.alternatives import ConvexSettings
from covad.toys.draw import LatentSource
from covad.toys.plan import AlternativeSettings, Draw, Ensemble, Stream, Treatment

CHEAP = ConvexSettings(features=5)
STUDY = """\
seed: 3
source: {kind: latent, nuisances: 1}
sizes: {expected: 200, reference: 1000}
tests: {convex: {features: 5}}
nu: [0, 1]
toys: 30
"""


def small_draw(**changes: Any) -> Draw:
    draw = Draw("latent", Treatment.PROFILED, expected=200, n_reference=1000, nu=(0.0,))
    return replace(draw, **changes)


def small_ensemble(
    test: AlternativeSettings = CHEAP, seed: int = 1, stream: Stream = Stream.TOYS, **changes: Any
) -> Ensemble:
    return Ensemble(small_draw(**changes), test, LatentSource(1), seed, stream)


def results(toys: Any) -> list[dict[str, Any]]:
    """Everything of the toys but the time that they took."""
    return [{k: v for k, v in vars(toy).items() if not k.endswith("seconds")} for toy in toys]


@dataclass(frozen=True)
class Mishap:
    """The convex test, except that toys whose number of data events is odd have a mishap."""

    kind: str
    marker: str = ""  # a file that counts how often it was run, where the mishap needs to know

    @property
    def degrees_of_freedom(self) -> int:
        return CHEAP.degrees_of_freedom

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def build(self, source: Any) -> Alternative:
        return _MishapAlternative(CHEAP.build(source), self.kind, self.marker)


@dataclass(frozen=True)
class _MishapAlternative:
    inner: Alternative
    kind: str
    marker: str
    name: str = "mishap"

    @property
    def n_parameters(self) -> int:
        return self.inner.n_parameters

    def fit(self, dataset: Any, null: Any, seed: Any) -> AlternativeFit:
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
            case "budget":
                return replace(fit, status=Status.UNCONVERGED)
            case "die":
                os.kill(os.getpid(), 9)
            case "die once":
                if not Path(self.marker).exists():
                    Path(self.marker).touch()
                    os.kill(os.getpid(), 9)
        return fit
