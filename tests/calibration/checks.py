"""What the suite concludes from its toys: type-I errors, pulls, power, and whether two ways to p agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
from calibration.ensembles import (
    NOMINAL,
    NULL_YIELDS,
    NUS,
    SIGMA,
    WIDE,
    OwnStream,
    Scale,
    Suite,
    Truth,
    named,
)
from calibration.limits import NODES, CountLaw, SimulatedNull, true_rates
from calibration.pulls import pulls
from numpy.typing import NDArray
from scipy.stats import norm

from covad.inference.joint import smaller_p
from covad.inference.nuisances import nuisance_covariance
from covad.inference.power import power_curve
from covad.inference.significance import Null
from covad.results.collect import Group, joint_null
from covad.toys.ensembles import Treatment
from covad.toys.store import EnsembleToys

Float64 = NDArray[np.float64]

#: Chance that any of the type-I errors is called wrong although all are right.
FAMILY_WISE = 0.01
#: Significances at which errors are counted: toys of the network end where its null does.
THRESHOLDS = {"convex": (1.0, 2.0, 3.0), "network": (1.0, 2.0), "joint": (1.0, 2.0)}
#: Truths at which the smaller p of both tests is judged.
JOINT = (NOMINAL, Truth(nu_norm=2.0))
#: Standard errors that pulls may be off.
PULL_ERRORS = 4.0
#: Chance of as much if nothing is wrong, below which an inflation counts as seen.
SEEN = 1e-3
#: Shares of the events at which pulls are checked: with fewer, the auxiliary terms matter more.
PULL_SHARES = (1.0, 0.1)
#: Largest difference of Z between t at the nominal yield and the law at the fitted nuisances.
LARGEST_DIFFERENCE = 0.1


@dataclass(frozen=True)
class Check:
    """One line of the result; `p` is the chance of a deviation as large if all is right."""

    group: str
    name: str
    toys: int
    observed: str
    expected: str
    p: float | None
    passed: bool


def rate_lines(scale: Scale) -> int:
    """Return the number of type-I errors that a suite of this scale counts."""
    sigmas = {truth.sigma for truth in scale.truths}
    of_network = sum(scale.network.judged_of(truth.sigma) > 0 for truth in scale.truths)
    return (
        (len(scale.truths) + len(sigmas)) * len(THRESHOLDS["convex"])
        + of_network * len(THRESHOLDS["network"])
        + len(JOINT) * len(THRESHOLDS["joint"])
    )


def rate_check(scale: Scale, name: str, t: Float64, null: Null, z_alpha: float, rates: Float64) -> Check:
    """How often p <= alpha, where the true rate is one of `rates`."""
    law = CountLaw(len(t), rates)
    k = int(np.count_nonzero(null.rejects(t, norm.sf(z_alpha))))
    p = law.two_sided(k)
    passed = p > FAMILY_WISE / rate_lines(scale)
    line = f"{name}, {z_alpha:.0f} sigma"
    return Check("type-I error", line, len(t), f"{k / len(t):.4f}", f"{law.mean_rate:.4f}", p, passed)


def convex_errors(suite: Suite, sigma: float) -> Iterator[Check]:
    """The p that is quoted, by the law: at every truth, and for the toys of the null at all its yields."""
    group = suite.group("convex", sigma)
    law = group.nulls[group.quoted]
    null = f"null at all yields{named(sigma)}"
    judged = ((truth.label, group.t(suite.judged("convex", truth))) for truth in suite.scale.truths_of(sigma))
    for name, t in chain([(null, group.null_t)], judged):
        for z in THRESHOLDS["convex"]:
            yield rate_check(suite.scale, f"convex, {name}", t, law, z, np.array([norm.sf(z)]))


def network_errors(suite: Suite, sigma: float) -> Iterator[Check]:
    """The p that is quoted, by the toys of the null at all yields."""
    group = suite.group("network", sigma)
    null = group.nulls[group.quoted]
    for truth in suite.scale.truths_of(sigma):
        t = group.t(suite.judged("network", truth))
        p = p_of_network(suite, truth)
        for z in THRESHOLDS["network"]:
            rates = true_rates(p, norm.sf(z))
            yield rate_check(suite.scale, f"network, {truth.label}", t, null, z, rates)


def joint_errors(suite: Suite) -> Iterator[Check]:
    """The smaller p of both tests of the same toys.

    Its limits are those of the network, which are a little too wide: the convex test adds no error.
    """
    groups = [suite.group(name) for name in ("convex", "network")]
    null = joint_null(*groups)
    for truth in JOINT:
        t = smaller_p(*_shared_p(*((group, suite.judged(group.test, truth)) for group in groups)))
        p = p_of_network(suite, truth)
        for z in THRESHOLDS["joint"]:
            rates = true_rates(p, norm.sf(z))
            yield rate_check(suite.scale, f"joint, {truth.label}", t, null, z, rates)


def _shared_p(*tests: tuple[Group, EnsembleToys]) -> list[Float64]:
    """Return the quoted p of the toys that all tests have."""
    by_index = [
        {toy.index: p for toy, p in zip(toys.done, group.nulls[group.quoted].p(group.t(toys)), strict=True)}
        for group, toys in tests
    ]
    shared = sorted(set.intersection(*(set(found) for found in by_index)))
    return [np.array([found[index] for index in shared]) for found in by_index]


def simulated_network(suite: Suite, sigma: float, yields: tuple[float, ...] = NULL_YIELDS) -> SimulatedNull:
    """Nulls like that of the network, at these of its yields."""
    group = suite.group("network", sigma)
    n = suite.scale.network.null_of(sigma)
    return SimulatedNull(group.moments, group.capacity, {nu_norm * sigma: n for nu_norm in yields})


@lru_cache(maxsize=4)
def p_of_network(suite: Suite, truth: Truth) -> Float64:
    return simulated_network(suite, truth.sigma).p_of_product(log_yields(truth))


def log_yields(truth: Truth) -> Float64:
    """Return the log yields of many toys at a truth."""
    thrown = np.random.default_rng(0).normal(0.0, truth.sigma, NODES)
    return thrown if truth.prior else np.full(NODES, truth.log_yield)


def exact_laws(suite: Suite) -> Iterator[Check]:
    """t at the nominal yield has the Z that the law at the fitted nuisances of each toy gives."""
    for truth in suite.scale.exact:
        group = suite.group("convex", truth.sigma)
        exact = {toy.index: toy.t for toy in suite.exact(truth).done}
        toys = suite.judged("convex", truth)
        z = group.nulls[group.quoted].z(group.t(toys))
        off = [
            z_of_toy - norm.isf(exact[toy.index])
            for toy, z_of_toy in zip(toys.done, z, strict=True)
            if toy.index in exact
        ]
        largest = float(np.abs(off).max())
        name = f"largest difference of Z to the law at the fitted nuisances, {truth.label}"
        limit = f"< {LARGEST_DIFFERENCE:g}"
        passed = largest < LARGEST_DIFFERENCE
        yield Check("law", name, len(off), f"{largest:.3f}", limit, None, passed)


def inflations(suite: Suite, name: str) -> Iterator[Check]:
    """Without nuisances in the test, background at nu = +-1 must alarm too often."""
    group, alpha = suite.untreated(name), float(norm.sf(1.0))
    null = group.nulls["R_0"]
    for nu in (1.0, -1.0):
        ensemble = suite.ensemble(
            group.ensemble.test, Truth(nu=nu), OwnStream.CHECK, treatment=Treatment.NONE
        )
        t = group.t(suite.run(ensemble, suite.toys(name).untreated))
        law, k = CountLaw(len(t), null.true_rates(alpha)), int(np.count_nonzero(null.rejects(t, alpha)))
        p = law.at_least(k)
        line = f"{name}, no nuisances, nu = {nu:+.0f}, 1 sigma"
        expected = f"> {law.mean_rate:.3f}"
        yield Check("inflation", line, len(t), f"{k / len(t):.3f}", expected, p, p < SEEN)


def powers(suite: Suite, name: str) -> Iterator[Check]:
    """At 2 sigma the power grows with every step of the signal, beginning from alpha."""
    group = suite.group(name)
    null = group.nulls[group.quoted]

    def power_of(toys: EnsembleToys) -> float:
        return float(power_curve(group.t(toys), null, 2.0).power[0])

    before = power_of(suite.judged(name, NOMINAL))
    for injected in suite.scale.injected:
        toys = suite.signal(name, injected)
        power = power_of(toys)
        line = f"{name}, {injected:.0f} signal events, 2 sigma"
        yield Check("power", line, len(toys.t), f"{power:.3f}", f"> {before:.3f}", None, power > before)
        before = power


def pull_checks(suite: Suite) -> Iterator[Check]:
    """nu_hat of the Delta fit, at every nu and for two sizes."""
    for share in PULL_SHARES:
        for nu in NUS:
            found = pulls_of(suite, nu, share)
            name = f"nu_hat, nu = {nu:+.0f}, {share * suite.scale.expected:.0f} events"
            for quantity, value, right, error in (
                ("mean", found.mean, 0.0, found.mean_error),
                ("width", found.width, 1.0, found.width_error),
            ):
                off = abs(value - right) / error
                yield Check(
                    "pulls",
                    f"{quantity}, {name}",
                    found.n_toys,
                    f"{value:.3f}",
                    f"{right:.0f} +- {error:.3f}",
                    float(2.0 * norm.sf(off)),
                    off <= PULL_ERRORS,
                )


def pulls_of(suite: Suite, nu: float, share: float, auxiliary_terms: bool = True):
    ensemble = suite.pulls(nu, share, auxiliary_terms)
    sample = suite.moments_sample(ensemble.draw)
    covariance = nuisance_covariance(sample, np.array([nu, 0.0]), ensemble.draw.n_reference)
    toys = suite.run(ensemble, suite.scale.pull_toys)
    return pulls(toys.column("nu_tau")[:, 0], nu, float(np.sqrt(covariance[0, 0])))


def convex_checks(suite: Suite) -> Iterator[Check]:
    """Everything that the convex test alone can show, cheap checks first."""
    yield from convex_errors(suite, SIGMA)
    yield from convex_errors(suite, WIDE)
    yield from exact_laws(suite)
    yield from inflations(suite, "convex")
    yield from powers(suite, "convex")


def network_checks(suite: Suite) -> Iterator[Check]:
    """Everything that needs the network; a small suite has not all of it."""
    toys = suite.scale.network
    yield from network_errors(suite, SIGMA)
    yield from joint_errors(suite)
    if toys.wide_judged:
        yield from network_errors(suite, WIDE)
    if toys.untreated:
        yield from inflations(suite, "network")
    if toys.signal:
        yield from powers(suite, "network")
