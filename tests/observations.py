"""Made-up answers for observed files."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from samples import random_events
from scipy.stats import norm

from covad.events.layout import Collection, EventLayout
from covad.inference.impacts import Fixed, Impact
from covad.inference.inputs import InputComparison, Shifts, WeightedEvents, compare_inputs
from covad.inference.intervals import Interval
from covad.inference.nuisances import Compatibility, Correlations, NuisanceFit
from covad.inference.significance import Significance
from covad.nplm.fit import Status
from covad.observed.result import (
    Excess,
    ObservableComparison,
    Observation,
    ObservedTest,
    RankedEvent,
)


def significance(
    null: str, z: float, saturated: bool = False, ends: Interval | None = None, extrapolated: bool = False
) -> Significance:
    ends = ends or Interval(z, z)
    p = float(norm.sf(z))
    return Significance(null, 60.0, p, z, saturated, ends, None, ends, extrapolated)


def observable(
    name: str = "sum of pt",
    edges: tuple[float, ...] = (0.0, 10.0, 20.0, 30.0),
    observed: tuple[float, ...] = (100.0, 50.0, 3.0),
    everywhere: tuple[float, ...] = (90.0, 60.0, 0.0),
) -> ObservableComparison:
    top, region = (4.0, 0.0, 9.0, 2.0), (3.0, 1.0, 4.0, 1.0)
    bins = len(edges) - 1
    histograms = (edges, top[:bins], region[:bins], observed, everywhere)
    return ObservableComparison(name, 8.0, 0.5, None, 7.5, *histograms)


@lru_cache(maxsize=2)
def input_comparison(wrong: bool = False) -> InputComparison:
    """A real comparison of two small samples; in a wrong one phi is given in degrees."""
    layout = EventLayout((Collection("met", 1), Collection("jet", 2)))
    data, simulation = (random_events(n, seed, layout).particles for n, seed in ((300, 1), (2000, 2)))
    simulated = WeightedEvents(simulation, np.ones(2000))
    if wrong:
        data = data * np.array([1.0, 1.0, 57.3], dtype=np.float32)
    return compare_inputs(layout, data, simulated, Shifts(simulated, ()))


def failed_convex() -> ObservedTest:
    return ObservedTest("convex", Status.FAILED, None, None, None, (), "analytic", "", (), None)


def observation(file: str, z: float, toys: Interval | None = None) -> Observation:
    """The network's test is quoted and has an excess, the convex one failed; laws end at Z = 2.14."""
    significances = (
        significance("R_0", z, z > 2.8, toys or Interval(z - 0.1, z + 0.1)),
        significance("chi2", z, extrapolated=z > 2.14),
    )
    ranked = (RankedEvent(7, 1.5, {"sum of pt": 25.0}),)
    excess = Excess(1.5, 100, 81.5, 2.0, ranked, (observable(),))
    network = ObservedTest(
        "network",
        Status.CONVERGED,
        60.0,
        65.0,
        5.0,
        (-0.125,),
        "R_0",
        "toys at the fitted yield",
        significances,
        excess,
    )
    return Observation(
        name=file.removesuffix(".h5"),
        rule="network",
        file=file,
        sha256="0123456789abcdef",
        configuration="covariant-profiled",
        label="covariant, profiled",
        nulls="",
        toys=800,
        expected=10_000.0,
        n_file=10_200,
        n_selected=10_100,
        n_reference=52_000,
        inputs=input_comparison(),
        nuisances=(NuisanceFit("jet_energy_scale", 0.5, -0.25, 0.125, -0.75),),
        compatibility=Compatibility(1.0, 2, 0.61),
        tests=(network, failed_convex()),
        joint=None,
        warnings=("the fit of the convex test ended as 'failed'",),
    )


def many_nuisances(found: Observation, n: int, seed: int = 1) -> Observation:
    """The same file tested with n nuisances by a convex test that did not fail."""
    rng = np.random.default_rng(seed)
    names = tuple(f"nuisance_{k}" for k in range(n))
    fitted, constraints = 0.5 * rng.standard_normal(n), rng.uniform(0.2, 1.0, n)
    fits = tuple(
        NuisanceFit(name, 0.0, float(nu), float(c), float(nu) / 2, float(c))
        for name, nu, c in zip(names, fitted, constraints, strict=True)
    )
    sizes = sorted(rng.exponential(0.1, n), reverse=True)
    impacts = tuple(
        Impact(
            names[k],
            *(Fixed(float(fitted[k] + s), 60.0, 1.0 + s * size, s * size) for s in (-0.5, 0.5, -1.0, 1.0)),
        )
        for k, size in zip(rng.permutation(n), sizes, strict=True)
    )
    convex = replace(
        found.tests[0],
        test="convex",
        nu_with_h=tuple((0.8 * fitted).tolist()),
        constraints_with_h=tuple(np.minimum(1.0, 1.1 * constraints).tolist()),
        impacts=impacts,
    )
    factors = rng.standard_normal((n, n + 5))
    matrix = np.corrcoef(factors) if n > 1 else np.ones((1, 1))
    correlations = Correlations(names, tuple(tuple(row) for row in matrix.tolist()))
    return replace(found, nuisances=fits, tests=(convex, *found.tests), correlations=correlations)
