"""Negative controls: for each way of being wrong, the statistic that must notice, and its power.

The statistic has a law when all is right, which gives the limit, and a law under the fault, which gives the
power, both from formulas. Each statistic is also applied to healthy toys, which it has to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from calibration.broken import BrokenSource, CollidingEnsemble
from calibration.checks import PULL_ERRORS, log_yields, p_of_network, pulls_of, simulated_network
from calibration.ensembles import SEED, SIGMA, SOURCE, WIDE, Suite, Truth
from calibration.limits import Normal, mean_of_p
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

from covad.errors import ToyStoreError
from covad.inference.significance import EmpiricalNull
from covad.inference.yields import NullMoments
from covad.nplm.convex.convex import ConvexProblem
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.convex.law import ConvexNull, ConvexNulls, ScoreMoments, analytic_nulls
from covad.nplm.likelihood import nuisance_slopes
from covad.toys.ensembles import Draw, Ensemble, Request
from covad.toys.store import ToyStore

Float64 = NDArray[np.float64]

#: Chance that a statistic calls healthy toys wrong.
LEVEL = 1e-3


@dataclass(frozen=True)
class Control:
    """A fault, the statistic that must notice, whether it did, and that healthy toys pass it.

    `power` is computed, at the toys used; 1 where the statistic cannot miss.
    """

    fault: str
    statistic: str
    toys: int
    healthy: str
    broken: str
    power: float
    passed: bool


@dataclass(frozen=True)
class SecondOrder:
    """The convex test's t = y.form.y around the truth: moments of the score, and the mean of t over toys."""

    form: Float64
    variance: Float64  # of y if all is right
    reference_variance: Float64  # its part from the reference
    score_of_weights: Float64  # sum_R w x

    @classmethod
    def of(cls, suite: Suite, draw: Draw) -> SecondOrder:
        sample, test = suite.moments_sample(draw), suite.convex.build(SOURCE)
        nulls = analytic_nulls(test, sample, n_reference=draw.n_reference)
        null = nulls.at_yield(draw.true_norm)
        return cls(
            null.form,
            null.variance,
            nulls.moments.at_yield(draw.true_norm).reference_variance,
            sample.weights @ ConvexProblem.of(test, sample).reference.astype(np.float64),
        )

    def mean_of_t(self, toys: int, variance: Float64 | None = None, shift: Float64 | float = 0.0) -> Normal:
        """If the score has this variance and expectation."""
        v = self.variance if variance is None else variance
        shift = np.broadcast_to(shift, len(v))
        spread = self.form @ v
        squared = 2.0 * np.trace(spread @ spread) + 4.0 * shift @ spread @ self.form @ shift
        return Normal(float(np.trace(spread) + shift @ self.form @ shift), float(np.sqrt(squared / toys)))


def wrong_weights(suite: Suite) -> Control:
    """2 % more weight than events: the mean of t, with the yield known."""
    n = suite.scale.control_toys
    law = SecondOrder.of(suite, suite.known_yield().draw)
    return mean_control(
        suite,
        suite.known_yield(),
        suite.known_yield(BrokenSource("weights 2 % too large")),
        law.mean_of_t(n),
        law.mean_of_t(n, shift=-0.02 * law.score_of_weights),
        "reference weight 2 % too large, without nu_N",
    )


def reused_reference(suite: Suite) -> Control:
    """Data that are part of the reference follow its fluctuations: y varies by F - C + A, t is too small."""
    n = suite.scale.control_toys
    law = SecondOrder.of(suite, suite.draw())
    return mean_control(
        suite,
        suite.ensemble(suite.convex),
        suite.broken("reference reused as data"),
        law.mean_of_t(n),
        law.mean_of_t(n, variance=law.variance - 2.0 * law.reference_variance),
        "reference events reused as data",
    )


def mean_control(
    suite: Suite, healthy: Ensemble, broken: Ensemble, right: Normal, wrong: Normal, fault: str
) -> Control:
    n = suite.scale.control_toys
    low, high = right.limits(LEVEL)
    means = [float(suite.run(ensemble, n).t.mean()) for ensemble in (healthy, broken)]
    return Control(
        fault,
        f"mean of t within {low:.2f} and {high:.2f}",
        n,
        f"{means[0]:.2f} ({right.mean:.2f} predicted)",
        f"{means[1]:.2f} ({wrong.mean:.2f} predicted)",
        right.power_to_notice(wrong, LEVEL),
        low <= means[0] <= high and not low <= means[1] <= high,
    )


def fixed_number(suite: Suite) -> Control:
    """Without the Poisson fluctuation N_D does not vary: sum (N - mean)^2 / mean leaves chi2_(n-1)."""
    n = suite.scale.control_toys
    low, high = (float(x) / (n - 1) for x in chi2.ppf([0.5 * LEVEL, 1.0 - 0.5 * LEVEL], n - 1))
    ratios = []
    for ensemble in (suite.pulls(0.0, 1.0), suite.fixed_number()):
        counts = suite.run(ensemble, n).column("n_data")
        ratios.append(float(counts.var(ddof=1) / counts.mean()))
    return Control(
        "Poisson fluctuation of N_D removed",
        f"variance of N_D / mean within {low:.2f} and {high:.2f}",
        n,
        f"{ratios[0]:.3f}",
        f"{ratios[1]:.3f}",
        1.0,  # the variance is 0 whatever the toys
        low <= ratios[0] <= high and not low <= ratios[1] <= high,
    )


def dropped_auxiliary_terms(suite: Suite, share: float = 0.1) -> Control:
    """Pulls, with the error that belongs to a fit with the auxiliary terms, come out too wide."""
    n = suite.scale.pull_toys
    right, wrong = (pulls_of(suite, 0.0, share, terms) for terms in (True, False))
    reach = PULL_ERRORS * right.width_error
    ratio = _width_without_auxiliary_terms(suite, share)
    ends = (n - 1) * np.square([1.0 - reach, 1.0 + reach]) / ratio**2
    return Control(
        f"auxiliary terms dropped, {share * suite.scale.expected:.0f} events",
        f"width of the pulls of nu_hat within 1 +- {reach:.3f}",
        n,
        f"{right.width:.3f}",
        f"{wrong.width:.3f} ({ratio:.3f} predicted)",
        float(chi2.cdf(ends[0], n - 1) + chi2.sf(ends[1], n - 1)),
        right.within(PULL_ERRORS) and abs(wrong.width - 1.0) > reach,
    )


def _width_without_auxiliary_terms(suite: Suite, share: float) -> float:
    """Standard deviation of nu_hat = F^-1 y, var y = F + C, in units of the error with auxiliary terms."""
    draw = suite.pulls(0.0, share).draw
    sample = suite.moments_sample(draw)
    slopes = nuisance_slopes(sample.reference_response, np.zeros(2)).astype(np.float32)
    moments = ScoreMoments.of(slopes, sample.weights, np.ones(len(slopes)))
    moments = moments.for_reference_of(draw.n_reference, sampled=len(slopes))
    auxiliary = np.diag([1.0, 1.0 / draw.normalisation_sigma**2])

    def variance(terms: Float64) -> float:
        inverse = np.linalg.inv(moments.information + terms)
        score = moments.information + moments.reference_variance + terms
        return float((inverse @ score @ inverse)[0, 0])

    return float(np.sqrt(variance(0.0 * auxiliary) / variance(auxiliary)))


def colliding_seeds(suite: Suite) -> Control:
    """Two toys with one seed, or with the same events under two seeds, never come to be stored."""
    draw = suite.draw(expected=200.0, n_reference=1000)
    same_seed = CollidingEnsemble(draw, suite.convex, SOURCE, SEED + 1)
    same_events = Ensemble(draw, suite.convex, BrokenSource("events of another toy"), SEED)
    healthy = _is_stored(suite, Ensemble(draw, suite.convex, SOURCE, SEED))
    broken = _is_stored(suite, same_seed) or _is_stored(suite, same_events)
    words = {True: "stored", False: "refused"}
    return Control(
        fault="colliding seeds",
        statistic="the store refuses",
        toys=10,
        healthy=words[healthy],
        broken=words[broken],
        power=1.0,
        passed=healthy and not broken,
    )


def _is_stored(suite: Suite, ensemble: Ensemble) -> bool:
    try:
        suite.run(ensemble, 10)
    except ToyStoreError:
        return False
    return True


def lost_fits(suite: Suite) -> Control:
    """A fit that is lost and given a number is counted as failed by the status."""
    n = 100
    request = Request(replace(suite.lost_fits(), draw=suite.draw(expected=200.0, n_reference=1000)), n)
    suite.run_all([request])
    store: ToyStore = suite.store
    counts, toys = store.counts([request])[0], store.load(request).toys
    lost = sum(toy.n_data % 2 for toy in toys)
    complete = counts.requested == counts.done + counts.failed + counts.missing == n
    return Control(
        "NaN mapped to t = -1",
        "failed toys in the status",
        n,
        f"{counts.done} done",
        f"{counts.failed} failed of {lost} lost",
        1.0,
        complete and counts.failed == lost > 0 and all(toy.t is None for toy in toys if toy.n_data % 2),
    )


#: t at the nominal yield, of t and the fitted log yield; linear in t.
AtNominal = Callable[[Float64, Float64], Float64]


def misplaced_auxiliary_value(suite: Suite) -> Control:
    """nu_N measured around 0 where the truth is +3 sigma: h must explain what nu_N is kept from."""
    n, truth = suite.scale.control_toys, Truth(nu_norm=3.0)
    right = suite.ensemble(suite.convex, truth)
    law = SecondOrder.of(suite, right.draw)
    off = np.zeros(len(law.variance))
    off[-1] = -truth.log_yield / truth.sigma**2
    return mean_control(
        suite,
        right,
        suite.broken("auxiliary value of nu_N around 0", truth),
        law.mean_of_t(n),
        law.mean_of_t(n, shift=off),
        f"auxiliary value of nu_N thrown around 0, {truth.label}",
    )


def old_treatments(suite: Suite) -> Iterator[Control]:
    """t is held against the law at nu_N = 0 as it is."""
    for truth in suite.scale.old:
        yield rate_control(suite, truth, "law of t at nu = 0 instead of the fitted nuisances", lambda t, _: t)


def wrong_sign(suite: Suite) -> Control:
    """t is moved away from the nominal yield instead of towards it."""
    truth = suite.scale.old[0]
    moments = suite.group("convex", truth.sigma).moments

    def away(t: Float64, log_yield: Float64) -> Float64:
        return moments.at_nominal(t, -log_yield)

    return rate_control(suite, truth, "t moved to the nominal yield with the wrong sign", away)


def still_reference(suite: Suite) -> Control:
    """C is taken to grow as the yield, though the weights of the reference enter it squared."""
    truth = max(suite.scale.truths_of(WIDE), key=lambda truth: truth.log_yield)
    nulls = suite.convex_nulls(truth)

    def wrong_law(log_yield: float) -> GeneralisedChi2:
        growth = float(np.exp(log_yield))
        moments = ScoreMoments(growth * nulls.moments.information, growth * nulls.moments.reference_variance)
        return ConvexNull.of(moments, nulls.ridge, nulls.auxiliary, nulls.n_basis).law

    moments = NullMoments.of_law(wrong_law, 6.0 * truth.sigma)
    fault = "variance of the reference scaled by the yield, not by its square"
    return rate_control(suite, truth, fault, moments.at_nominal)


def rate_control(suite: Suite, truth: Truth, fault: str, at_nominal: AtNominal) -> Control:
    """The number of background toys beyond a threshold at a true nu_N, if t is moved in another way."""
    group, toys = suite.group("convex", truth.sigma), suite.judged("convex", truth)
    z, alpha = suite.scale.fault_sigma, norm.sf(suite.scale.fault_sigma)
    null, n = group.nulls[group.quoted], len(toys.t)
    right = binom(n, alpha)
    low, high = int(right.ppf(0.5 * LEVEL)), int(right.isf(0.5 * LEVEL))
    moved = group.t(toys), at_nominal(toys.t, toys.column("log_yield"))
    healthy, broken = (int(np.count_nonzero(null.rejects(t, alpha))) for t in moved)
    wrong = _wrong_rate(suite.convex_nulls(truth), truth, at_nominal, float(alpha))
    return Control(
        f"{fault}, {truth.label}",
        f"toys beyond {z:.0f} sigma from {low} to {high}",
        n,
        f"{healthy} ({n * alpha:.1f} predicted)",
        f"{broken} ({n * wrong:.1f} predicted)",
        float(binom.cdf(low - 1, n, wrong) + binom.sf(high, n, wrong)),
        low <= healthy <= high and not low <= broken <= high,
    )


def _wrong_rate(nulls: ConvexNulls, truth: Truth, at_nominal: AtNominal, alpha: float) -> float:
    """Return how often t, moved in another way, is beyond the threshold of the law at nu_N = 0."""
    zero, one = at_nominal(np.array([0.0, 1.0]), np.full(2, truth.log_yield))
    threshold = (nulls.at_yield().law.isf(alpha) - zero) / (one - zero)
    return float(nulls.at_yield(truth.log_yield).law.sf(threshold))


def null_at_one_yield(suite: Suite) -> Control:
    """The network's t is held against toys at nu_N = 0 as it is."""
    truth, group = Truth(nu_norm=3.0), suite.group("network")
    wrong = simulated_network(suite, SIGMA, (0.0,)).p_of_raw(log_yields(truth))
    return _mean_p_control(suite, truth, group.null.t, wrong, "null of the network at nu_N = 0 only")


def null_of_the_prior(suite: Suite) -> Control:
    """The network's t is held against toys of the prior as it is: right on average over the prior only."""
    truth, prior = Truth(nu_norm=2.0), Truth(prior=True)
    null = suite.judged("network", prior).t
    thrown = np.random.default_rng(SEED).normal(0.0, SIGMA, len(null))
    simulated = replace(simulated_network(suite, SIGMA), toys=dict.fromkeys(thrown.tolist(), 1))
    wrong = simulated.p_of_raw(log_yields(truth))
    return _mean_p_control(suite, truth, null, wrong, "null of the network thrown from the prior")


def _mean_p_control(suite: Suite, truth: Truth, null: Float64, wrong_p: Float64, fault: str) -> Control:
    """The mean of p at a true nu_N, which is 1/2, if raw t is held against other toys."""
    group, toys = suite.group("network"), suite.judged("network", truth)
    n = len(toys.t)
    right, wrong = mean_of_p(p_of_network(suite, truth), n), mean_of_p(wrong_p, n)
    low, high = right.limits(LEVEL)
    healthy = float(group.nulls[group.quoted].p(group.t(toys)).mean())
    broken = float(EmpiricalNull(null).p(toys.t).mean())
    return Control(
        f"{fault}, {truth.label}",
        f"mean of p within {low:.3f} and {high:.3f}",
        n,
        f"{healthy:.3f} ({right.mean:.3f} predicted)",
        f"{broken:.3f} ({wrong.mean:.3f} predicted)",
        right.power_to_notice(wrong, LEVEL),
        low <= healthy <= high and not low <= broken <= high,
    )


def controls_of_toys(suite: Suite) -> Iterator[Control]:
    """Faults of drawing, fitting and storing, which the convex test notices or nobody needs a test for."""
    for control in (
        colliding_seeds,
        lost_fits,
        fixed_number,
        dropped_auxiliary_terms,
        wrong_weights,
        reused_reference,
        misplaced_auxiliary_value,
    ):
        yield control(suite)


def controls_of_the_yield(suite: Suite) -> Iterator[Control]:
    """Faults of what is made of t where the true yield is not the expected one; the convex test."""
    yield from old_treatments(suite)
    yield wrong_sign(suite)
    yield still_reference(suite)


def controls_of_the_network(suite: Suite) -> Iterator[Control]:
    """The same for the network, where it has toys enough to notice."""
    if suite.scale.network_faults:
        yield null_at_one_yield(suite)
        yield null_of_the_prior(suite)
