"""What the calibration suite runs: ensembles of the analytic latent world, through covad's own machinery.

The budget of the full suite (`FULL`), fixed before any of its toys was looked at. Core-seconds per toy of
10 000 / 52 000 events: convex 0.08, network 0.33 (0.085 and 0.38 with sigma_N = 0.3: larger yields),
exact law 0.25, nuisances alone 0.013 (0.003 with 1 000 events).

| ensembles | toys each | core-minutes |
| --- | ---: | ---: |
| pulls, 5 nu, 10 000 and 1 000 events, and 3 controls | 2000 | 3 |
| convex: controls, 4 | 400 | 2 |
| convex: null at 5 yields | 400 | 3 |
| convex: judged at 10 truths | 2000 | 27 |
| convex, sigma_N = 0.3: null at 5 yields | 250 | 2 |
| convex, sigma_N = 0.3: judged at 6 truths | 1500 | 13 |
| convex: exact law at 5 truths | 200 | 4 |
| convex: without nuisances, 3; with signal, 3 | 600; 300 | 4 |
| network: W, two treatments | about 350 | 4 |
| network: null at 5 yields | 400 | 11 |
| network: judged at 10 truths | 600 | 33 |
| network, sigma_N = 0.3: null at 5 yields | 250 | 8 |
| network, sigma_N = 0.3: judged at 6 truths | 300 | 12 |
| network: without nuisances, 3; with signal, 3 | 150; 80 | 4 |
| together | | 130 |

Two cores have 150 core-minutes in the 75 minutes that the suite may take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np
from calibration.broken import BrokenSource, NanBecomesMinusOne, NuisancesAlone
from calibration.quoted import QuotedP
from numpy.typing import NDArray

from covad.inference.clip import choose_clip
from covad.nplm.convex.law import ConvexNulls, analytic_nulls
from covad.nplm.dataset import Dataset, Float64
from covad.results.collect import Group
from covad.study import Configuration
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import Draw, Ensemble, Request, Source, Stream, Treatment, TunedTest
from covad.toys.run import Backend, run_toys
from covad.toys.store import EnsembleToys, ToyStore
from covad.toys.tests import ChosenConvex, TunedConvex, TunedNetwork

#: Chosen before any toy was looked at.
SEED = 20261116
SOURCE = LatentSource(1)
#: True nu at which pulls are checked.
NUS = (0.0, 1.0, -1.0, 2.0, -2.0)
#: True nu_N, in units of its sigma, at which the null is drawn: the default of a study.
NULL_YIELDS = (0.0, -3.0, -1.5, 1.5, 3.0)
#: Sigma of the normalisation, and the larger one of a yield that is hardly known.
SIGMA, WIDE = 0.1, 0.3
#: Sample of the reference from which analytic laws take their moments, in units of a toy's reference.
MOMENTS = 5


class OwnStream(StrEnum):
    """A stream besides those of covad, for toys that judge what was calibrated on the others."""

    CHECK = "check"


@dataclass(frozen=True)
class Truth:
    """The true nuisances of background, nu_norm in units of its sigma; or the prior of both."""

    nu: float = 0.0
    nu_norm: float = 0.0
    prior: bool = False
    sigma: float = SIGMA  # of the normalisation

    @property
    def log_yield(self) -> float:
        return self.nu_norm * self.sigma

    @property
    def label(self) -> str:
        """Name it in a line of the result: 'nu_N = +2 sigma_N', with sigma_N where it is the wide one."""
        if self.prior:
            where = "prior"
        elif self.nu:
            where = f"nu = {self.nu:+g}"
        else:
            where = f"nu_N = {self.nu_norm:+g} sigma_N" if self.nu_norm else "nu_N = 0"
        return f"{where}{named(self.sigma)}"


def named(sigma: float) -> str:
    """Say which sigma_N a line is about, if it is not the usual one."""
    return "" if sigma == SIGMA else f", sigma_N = {sigma:g}"


NOMINAL = Truth()


@dataclass(frozen=True)
class Toys:
    """How many toys one test has, by what they are for; where there are none, there is no check."""

    null: int  # at each of the yields
    judged: int  # at each truth
    wide_null: int  # the same with the wide sigma_N
    wide_judged: int
    untreated: int  # without nuisances in the test
    signal: int

    def null_of(self, sigma: float) -> int:
        return self.null if sigma == SIGMA else self.wide_null

    def judged_of(self, sigma: float) -> int:
        return self.judged if sigma == SIGMA else self.wide_judged


@dataclass(frozen=True)
class Scale:
    """Events per toy, toys per ensemble, truths and signals. `clip` None means that W is tuned."""

    expected: float
    reference: int
    bumps: int
    convex: Toys
    network: Toys
    control_toys: int
    pull_toys: int
    exact_toys: int
    truths: tuple[Truth, ...]  # at which type-I errors are counted
    exact: tuple[Truth, ...]  # at which t' is compared with the law at the fitted nuisances, some of `truths`
    old: tuple[Truth, ...]  # at which the law at nu_N = 0 must be noticed, some of `truths`
    fault_sigma: float  # beyond which toys are counted to notice that
    network_faults: bool  # whether the network has toys enough to notice faults of its null
    injected: tuple[float, ...]
    clip: float | None = None

    def truths_of(self, sigma: float) -> tuple[Truth, ...]:
        return tuple(truth for truth in self.truths if truth.sigma == sigma)


FULL = Scale(
    expected=10_000,
    reference=52_000,
    bumps=100,
    convex=Toys(null=400, judged=2000, wide_null=250, wide_judged=1500, untreated=600, signal=300),
    network=Toys(null=400, judged=600, wide_null=250, wide_judged=300, untreated=150, signal=80),
    control_toys=400,
    pull_toys=2000,
    exact_toys=200,
    truths=(
        *(Truth(nu_norm=nu_norm) for nu_norm in (0.0, -2.0, 1.0, 2.0, 3.0)),
        *(Truth(nu=nu) for nu in (1.0, -1.0, 2.0, -2.0)),
        Truth(prior=True),
        *(Truth(nu_norm=nu_norm, sigma=WIDE) for nu_norm in (0.0, -2.0, 1.0, 2.0, 3.0)),
        Truth(prior=True, sigma=WIDE),
    ),
    exact=(
        *(Truth(nu_norm=3.0), Truth(nu=2.0), Truth(prior=True)),
        *(Truth(nu_norm=nu_norm, sigma=WIDE) for nu_norm in (-2.0, 2.0)),
    ),
    old=(Truth(nu_norm=3.0), Truth(nu_norm=1.0, sigma=WIDE)),
    fault_sigma=2.0,
    network_faults=True,
    injected=(25.0, 50.0, 100.0),
)
SMALL = Scale(
    expected=4_000,
    reference=20_800,
    bumps=20,
    convex=Toys(null=12, judged=120, wide_null=10, wide_judged=300, untreated=100, signal=60),
    network=Toys(null=30, judged=25, wide_null=0, wide_judged=0, untreated=0, signal=0),
    control_toys=100,
    pull_toys=300,
    exact_toys=20,
    truths=(
        Truth(),
        Truth(nu_norm=2.0),
        Truth(nu=2.0),
        Truth(prior=True),
        Truth(nu_norm=3.0, sigma=WIDE),
    ),
    exact=(Truth(nu_norm=3.0, sigma=WIDE),),
    old=(Truth(nu_norm=3.0, sigma=WIDE),),
    fault_sigma=1.0,
    network_faults=False,
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

    def test(self, name: str, treatment: Treatment = Treatment.PROFILED) -> TunedTest:
        return self.convex if name == "convex" else TunedNetwork(clip=self.clips[treatment])

    def toys(self, name: str) -> Toys:
        return self.scale.convex if name == "convex" else self.scale.network

    @cached_property
    def convex(self) -> ChosenConvex:
        scale = self.scale
        settings = TunedConvex(bumps=scale.bumps, expected=scale.expected, reference=scale.reference)
        return settings.chosen(SOURCE)

    @cached_property
    def clips(self) -> dict[Treatment, float]:
        """W by treatment, tuned on the stream that is there for it."""
        return {treatment: self.scale.clip or self._tuned_clip(treatment) for treatment in Treatment}

    def _tuned_clip(self, treatment: Treatment) -> float:
        def toys(clip: float, indices: NDArray[np.intp]) -> Float64:
            ensemble = self.ensemble(TunedNetwork(clip=clip), stream=Stream.SCAN, treatment=treatment)
            return self.run(ensemble, int(indices.max()) + 1).t_by_index()[indices]

        return round(choose_clip(toys, round(TunedNetwork(clip=1.0).capacity)).clip, 3)

    def draw(self, truth: Truth = NOMINAL, **changes: object) -> Draw:
        scale = self.scale
        return replace(
            Draw("latent", Treatment.PROFILED, scale.expected, scale.reference, (truth.nu,)),
            nu_norm=truth.nu_norm,
            prior=truth.prior,
            normalisation_sigma=truth.sigma,
            **changes,
        )

    def ensemble(
        self,
        test: TunedTest,
        truth: Truth = NOMINAL,
        stream: Stream | OwnStream = Stream.TOYS,
        source: Source = SOURCE,
        **changes: object,
    ) -> Ensemble:
        return Ensemble(self.draw(truth, **changes), test, source, SEED, stream)

    def run(self, ensemble: Ensemble, toys: int) -> EnsembleToys:
        """The toys, computed as far as they are missing."""
        request = Request(ensemble, toys)
        self.run_all([request])
        return self.store.load(request)

    def run_all(self, requests: Sequence[Request]) -> None:
        run_toys(requests, self.store, self.backend)

    @cached_property
    def _groups(self) -> dict[tuple[str, float], Group]:
        return {}

    def group(self, name: str, sigma: float = SIGMA) -> Group:
        """A test with its null toys at all yields, as results and observed files use it."""
        if (name, sigma) not in self._groups:
            n, test = self.toys(name).null_of(sigma), self.test(name)
            ensembles = {x: self.ensemble(test, Truth(nu_norm=x, sigma=sigma)) for x in NULL_YIELDS}
            self.run_all([Request(ensemble, n) for ensemble in ensembles.values()])
            null, *yields = (self.store.load(Request(ensemble, n)) for ensemble in ensembles.values())
            at_yields = dict(zip(NULL_YIELDS[1:], yields, strict=True))
            configuration = Configuration(space="latent")
            self._groups[name, sigma] = Group(
                name, configuration, null, at_yields, {}, {}, None, {}, ensembles[0.0], ("nu_1",)
            )
        return self._groups[name, sigma]

    def untreated(self, name: str) -> Group:
        """A test that knows no nuisances, with its null at nu = 0."""
        ensemble = self.ensemble(self.test(name, Treatment.NONE), treatment=Treatment.NONE)
        null = self.run(ensemble, self.toys(name).untreated)
        configuration = Configuration(space="latent", treatment=Treatment.NONE)
        return Group(name, configuration, null, {}, {}, {}, None, {}, ensemble, ("nu_1",))

    def judged(self, name: str, truth: Truth) -> EnsembleToys:
        """Background that is independent of the nulls: where they are at the same truth, by other seeds."""
        ensemble = self.ensemble(self.test(name), truth, OwnStream.CHECK)
        return self.run(ensemble, self.toys(name).judged_of(truth.sigma))

    def exact(self, truth: Truth) -> EnsembleToys:
        """The judged toys of the convex test, with p by the law at their fitted nuisances in place of t."""
        ensemble = self.ensemble(QuotedP(self.convex), truth, OwnStream.CHECK)
        return self.run(ensemble, self.scale.exact_toys)

    def convex_nulls(self, truth: Truth) -> ConvexNulls:
        """The law of t at all yields, from a sample of its own."""
        draw = self.draw(Truth(sigma=truth.sigma))
        return analytic_nulls(
            self.convex.build(SOURCE), self.moments_sample(draw), n_reference=draw.n_reference
        )

    def moments_sample(self, draw: Draw) -> Dataset:
        """A dataset with a large reference, for analytic laws; its events are in no toy."""
        large = replace(draw, n_reference=MOMENTS * draw.n_reference)
        seeds = Ensemble(large, self.convex, SOURCE, SEED, OwnStream.CHECK).seeds(0)
        return SOURCE.draw(large, seeds)

    def signal(self, name: str, injected: float) -> EnsembleToys:
        ensemble = self.ensemble(self.test(name), signal="signal", injected=injected)
        return self.run(ensemble, self.toys(name).signal)

    def pulls(self, nu: float, expected_share: float, auxiliary_terms: bool = True) -> Ensemble:
        """Fitted nuisances at nu, with a share of the events."""
        scale = self.scale
        return self.ensemble(
            NuisancesAlone(auxiliary_terms),
            Truth(nu=nu),
            expected=expected_share * scale.expected,
            n_reference=round(expected_share * scale.reference),
        )

    def known_yield(self, source: Source = SOURCE) -> Ensemble:
        """Without nu_N, so that a wrong yield cannot hide, and with enough events to show 2 %."""
        ensemble = self.ensemble(self.convex, source=source)
        size = {"expected": FULL.expected, "n_reference": FULL.reference}
        return replace(ensemble, draw=replace(ensemble.draw, normalisation_sigma=None, **size))

    def broken(self, fault: str, truth: Truth = NOMINAL) -> Ensemble:
        return self.ensemble(self.convex, truth, source=BrokenSource(fault))

    def fixed_number(self) -> Ensemble:
        return self.ensemble(NuisancesAlone(), source=BrokenSource("number of data fixed"))

    def lost_fits(self) -> Ensemble:
        return self.ensemble(NanBecomesMinusOne(self.convex))
