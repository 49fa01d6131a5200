"""What the calibration suite runs: ensembles of the analytic latent world, through covad's own machinery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np
from calibration.broken import BrokenSource, NanBecomesMinusOne, NuisancesAlone
from numpy.typing import NDArray

from covad.inference.clip import choose_clip
from covad.nplm.dataset import Dataset, Float64
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import Draw, Ensemble, Request, Source, Stream, Treatment, TunedTest
from covad.toys.run import Backend, run_toys
from covad.toys.store import EnsembleToys, ToyStore
from covad.toys.tests import ChosenConvex, TunedConvex, TunedNetwork

#: Chosen before any toy was looked at.
SEED = 20261116
SOURCE = LatentSource(1)
NUS = (0.0, 1.0, -1.0)
#: Sample of the reference from which analytic laws take their moments, in units of a toy's reference.
MOMENTS = 5


class OwnStream(StrEnum):
    """A stream besides those of covad, for toys that judge what was calibrated on the others."""

    CHECK = "check"


@dataclass(frozen=True)
class Scale:
    """Events per toy, toys per ensemble, and signals; where there are no toys, there is no check.

    `clip` None means that W is tuned.
    """

    expected: float
    reference: int
    bumps: int
    convex_toys: int
    network_toys: int
    untreated_toys: tuple[int, int]  # of convex and network without nuisances in the test
    signal_toys: tuple[int, int]
    control_toys: int
    pull_toys: int
    injected: tuple[float, ...]
    clip: float | None = None


FULL = Scale(
    expected=10_000,
    reference=52_000,
    bumps=100,
    convex_toys=3000,
    network_toys=1000,
    untreated_toys=(600, 200),
    signal_toys=(300, 100),
    control_toys=400,
    pull_toys=2000,
    injected=(25.0, 50.0, 100.0),
)
SMALL = Scale(
    expected=4_000,
    reference=20_800,
    bumps=20,
    convex_toys=200,
    network_toys=44,
    untreated_toys=(150, 0),
    signal_toys=(60, 0),
    control_toys=100,
    pull_toys=300,
    injected=(40.0, 80.0, 160.0),
    clip=1.3,
)


@dataclass(frozen=True)
class Suite:
    """The toys of the suite in a directory that can be left and taken up again."""

    scale: Scale
    directory: Path
    backend: Backend

    @property
    def store(self) -> ToyStore:
        return ToyStore(self.directory / "toys")

    @cached_property
    def convex(self) -> ChosenConvex:
        scale = self.scale
        settings = TunedConvex(bumps=scale.bumps, expected=scale.expected, reference=scale.reference)
        return settings.chosen(SOURCE)

    def network(self, treatment: Treatment) -> TunedNetwork:
        return TunedNetwork(clip=self.clips[treatment])

    @cached_property
    def clips(self) -> dict[Treatment, float]:
        """W by treatment, tuned on the stream that is there for it."""
        return {treatment: self.scale.clip or self._tuned_clip(treatment) for treatment in Treatment}

    def _tuned_clip(self, treatment: Treatment) -> float:
        def toys(clip: float, indices: NDArray[np.intp]) -> Float64:
            ensemble = self.ensemble(TunedNetwork(clip=clip), stream=Stream.SCAN, treatment=treatment)
            return self.run(ensemble, int(indices.max()) + 1).t_by_index()[indices]

        return round(choose_clip(toys, round(TunedNetwork(clip=1.0).capacity)).clip, 3)

    def draw(self, nu: float = 0.0, **changes: object) -> Draw:
        scale = self.scale
        return replace(Draw("latent", Treatment.PROFILED, scale.expected, scale.reference, (nu,)), **changes)

    def ensemble(
        self,
        test: TunedTest,
        nu: float = 0.0,
        stream: Stream | OwnStream = Stream.TOYS,
        source: Source = SOURCE,
        **changes: object,
    ) -> Ensemble:
        return Ensemble(self.draw(nu, **changes), test, source, SEED, stream)

    def run(self, ensemble: Ensemble, toys: int) -> EnsembleToys:
        """The toys, computed as far as they are missing."""
        request = Request(ensemble, toys)
        self.run_all([request])
        return self.store.load(request)

    def run_all(self, requests: Sequence[Request]) -> None:
        run_toys(requests, self.store, self.backend)

    def moments_sample(self, draw: Draw) -> Dataset:
        """A dataset with a large reference, for analytic laws; its events are in no toy."""
        large = replace(draw, n_reference=MOMENTS * draw.n_reference)
        seeds = Ensemble(large, self.convex, SOURCE, SEED, OwnStream.CHECK).seeds(0)
        return SOURCE.draw(large, seeds)

    def null(self, test: TunedTest, **changes: object) -> Ensemble:
        """R_0, against which the others are judged."""
        return self.ensemble(test, **changes)

    def judged(self, test: TunedTest, nu: float, **changes: object) -> Ensemble:
        """Background at nu, independent of R_0: at nu = 0 the same draw with other seeds."""
        return self.ensemble(test, nu, OwnStream.CHECK, **changes)

    def signal(self, test: TunedTest, injected: float) -> Ensemble:
        return self.ensemble(test, signal="signal", injected=injected)

    def pulls(self, nu: float, expected_share: float, auxiliary_terms: bool = True) -> Ensemble:
        """Fitted nuisances at nu, with a share of the events."""
        scale = self.scale
        return self.ensemble(
            NuisancesAlone(auxiliary_terms),
            nu,
            expected=expected_share * scale.expected,
            n_reference=round(expected_share * scale.reference),
        )

    def known_yield(self, source: Source = SOURCE) -> Ensemble:
        """Without nu_N, so that a wrong yield cannot hide, and with enough events to show 2 %."""
        size = {"expected": FULL.expected, "n_reference": FULL.reference}
        return self.ensemble(self.convex, source=source, normalisation_sigma=None, **size)

    def reused(self) -> Ensemble:
        return self.ensemble(self.convex, source=BrokenSource("reference reused as data"))

    def fixed_number(self) -> Ensemble:
        return self.ensemble(NuisancesAlone(), source=BrokenSource("number of data fixed"))

    def lost_fits(self) -> Ensemble:
        return self.ensemble(NanBecomesMinusOne(self.convex))
