"""What the suite concludes from its toys: type-I errors, pulls, power, and whether wrong toys are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from calibration.ensembles import NUS, Suite
from calibration.pulls import pulls
from numpy.typing import NDArray
from scipy.stats import betabinom, binom, norm

from covad.inference.nuisances import nuisance_covariance
from covad.inference.power import power_curve
from covad.inference.significance import AnalyticNull, EmpiricalNull, Null
from covad.nplm.convex.law import analytic_null
from covad.toys.ensembles import Treatment, TunedTest

Float64 = NDArray[np.float64]

#: Chance that any of the type-I errors is called wrong although all are right.
FAMILY_WISE = 0.01
THRESHOLDS = (1.0, 2.0)
#: Two tests at three nu and two thresholds against toys, and the convex one against its formula too.
RATE_CHECKS = 3 * len(NUS) * len(THRESHOLDS)
#: Standard errors that pulls may be off.
PULL_ERRORS = 4.0
#: Chance of as much if nothing is wrong, below which an inflation counts as seen.
SEEN = 1e-3
#: Shares of the events at which pulls are checked: with fewer, the auxiliary terms matter more.
PULL_SHARES = (1.0, 0.1)


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


def rate_check(name: str, t: Float64, null: Null, z_alpha: float) -> Check:
    """How often p <= alpha, against the binomial law, or the beta-binomial one of a null made of toys."""
    law = count_law(len(t), null, z_alpha)
    k = int(np.count_nonzero(null.rejects(t, norm.sf(z_alpha))))
    p = float(min(1.0, 2.0 * min(law.cdf(k), law.sf(k - 1))))
    passed = p > FAMILY_WISE / RATE_CHECKS
    expected = f"{law.mean() / len(t):.4f}"
    return Check("type-I error", name, len(t), f"{k / len(t):.4f}", expected, p, passed)


def count_law(n: int, null: Null, z_alpha: float):
    """The law of the number of toys with p <= alpha among n of the null."""
    alpha = float(norm.sf(z_alpha))
    if not isinstance(null, EmpiricalNull):
        return binom(n, alpha)
    rank = int(np.floor(alpha * (len(null.t) + 1)))
    if rank < 1:
        raise ValueError(f"{len(null.t)} toys do not resolve {z_alpha} sigma")
    return betabinom(n, rank, len(null.t) + 1 - rank)


def type_one_errors(suite: Suite, test: TunedTest, label: str, toys: int) -> Iterator[Check]:
    """With the nuisance profiled, at every nu, against an independent R_0 and, if convex, the formula."""
    nulls: list[Null] = [EmpiricalNull(suite.run(suite.null(test), toys).t)]
    if test is suite.convex:
        nulls.append(convex_null(suite))
    for nu in NUS:
        t = suite.run(suite.judged(test, nu), toys).t
        for null in nulls:
            for z in THRESHOLDS:
                yield rate_check(f"{label}, nu = {nu:+.0f}, {z:.0f} sigma, null {null.name}", t, null, z)


def convex_null(suite: Suite) -> AnalyticNull:
    sample = suite.moments_sample(suite.draw())
    law = analytic_null(suite.convex.build(None), sample, n_reference=suite.scale.reference).law
    return AnalyticNull(law.sf, "formula")


def inflations(suite: Suite, test: TunedTest, label: str, toys: int) -> Iterator[Check]:
    """Without nuisances in the test, background at nu = +-1 must alarm too often."""
    none = {"treatment": Treatment.NONE}
    null = EmpiricalNull(suite.run(suite.null(test, **none), toys).t)
    for nu in NUS[1:]:
        t = suite.run(suite.judged(test, nu, **none), toys).t
        law, k = count_law(len(t), null, 1.0), int(np.count_nonzero(null.rejects(t, norm.sf(1.0))))
        p = float(law.sf(k - 1))
        name = f"{label}, no nuisances, nu = {nu:+.0f}, 1 sigma"
        yield Check("inflation", name, toys, f"{k / toys:.3f}", f"> {law.mean() / toys:.3f}", p, p < SEEN)


def powers(suite: Suite, test: TunedTest, label: str, null_toys: int, toys: int) -> Iterator[Check]:
    """At 2 sigma the power grows with every step of the signal, beginning from alpha."""
    null = EmpiricalNull(suite.run(suite.null(test), null_toys).t)
    before = float(power_curve(suite.run(suite.judged(test, 0.0), null_toys).t, null, 2.0).power[0])
    for injected in suite.scale.injected:
        t = suite.run(suite.signal(test, injected), toys).t
        power = float(power_curve(t, null, 2.0).power[0])
        name = f"{label}, {injected:.0f} signal events, 2 sigma"
        yield Check("power", name, len(t), f"{power:.3f}", f"> {before:.3f}", None, power > before)
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


def all_checks(suite: Suite) -> Iterator[Check]:
    """Everything but the controls, cheap ones first."""
    scale = suite.scale
    yield from pull_checks(suite)
    yield from _checks_of(suite, suite.convex, suite.convex, "convex", scale.convex_toys, 0)
    profiled, none = (suite.network(treatment) for treatment in (Treatment.PROFILED, Treatment.NONE))
    yield from _checks_of(suite, profiled, none, "network", scale.network_toys, 1)


def _checks_of(
    suite: Suite, test: TunedTest, untreated: TunedTest, label: str, toys: int, which: int
) -> Iterator[Check]:
    yield from type_one_errors(suite, test, label, toys)
    if without_nuisances := suite.scale.untreated_toys[which]:
        yield from inflations(suite, untreated, label, without_nuisances)
    if with_signal := suite.scale.signal_toys[which]:
        yield from powers(suite, test, label, toys, with_signal)
