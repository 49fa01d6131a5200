"""Negative controls: for each way of being wrong, the statistic that must notice, and its power.

The statistic has a law when all is right, which gives the limit, and a law under the fault, which gives the
power, both from formulas. Each statistic is also applied to healthy toys, which it has to pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from calibration.broken import BrokenSource, CollidingEnsemble
from calibration.checks import PULL_ERRORS, pulls_of
from calibration.ensembles import SEED, SOURCE, Suite
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from covad.errors import ToyStoreError
from covad.nplm.convex.convex import ConvexProblem
from covad.nplm.convex.law import ScoreMoments, analytic_null
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
class Normal:
    """The mean of many t: its expectation and standard error."""

    mean: float
    error: float

    def limits(self) -> tuple[float, float]:
        reach = self.error * float(norm.isf(0.5 * LEVEL))
        return self.mean - reach, self.mean + reach

    def power_to_notice(self, fault: Normal) -> float:
        low, high = self.limits()
        return float(norm.cdf(low, fault.mean, fault.error) + norm.sf(high, fault.mean, fault.error))


@dataclass(frozen=True)
class SecondOrder:
    """The convex test's t = y.form.y around the truth: moments of the score, and the mean of t over toys."""

    form: Float64
    variance: Float64  # of y if all is right
    reference_variance: Float64  # its part from the reference
    score_of_weights: Float64  # sum_R w x

    @classmethod
    def of(cls, suite: Suite, draw: Draw) -> SecondOrder:
        n, sample = draw.n_reference, suite.moments_sample(draw)
        test = suite.convex.build(SOURCE)
        null, problem = analytic_null(test, sample, n_reference=n), ConvexProblem.of(test, sample)
        moments = ScoreMoments.of(problem.reference, sample.weights, np.ones(len(sample.weights)))
        return cls(
            null.form,
            null.variance,
            moments.for_reference_of(n, sampled=len(sample.weights)).reference_variance,
            sample.weights @ problem.reference.astype(np.float64),
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
        suite.null(suite.convex),
        suite.reused(),
        law.mean_of_t(n),
        law.mean_of_t(n, variance=law.variance - 2.0 * law.reference_variance),
        "reference events reused as data",
    )


def mean_control(
    suite: Suite, healthy: Ensemble, broken: Ensemble, right: Normal, wrong: Normal, fault: str
) -> Control:
    n = suite.scale.control_toys
    low, high = right.limits()
    means = [float(suite.run(ensemble, n).t.mean()) for ensemble in (healthy, broken)]
    return Control(
        fault,
        f"mean of t within {low:.2f} and {high:.2f}",
        n,
        f"{means[0]:.2f} ({right.mean:.2f} predicted)",
        f"{means[1]:.2f} ({wrong.mean:.2f} predicted)",
        right.power_to_notice(wrong),
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


def all_controls(suite: Suite) -> Iterator[Control]:
    """In the order of the issue that asks for them."""
    for control in (
        wrong_weights,
        fixed_number,
        dropped_auxiliary_terms,
        reused_reference,
        colliding_seeds,
        lost_fits,
    ):
        yield control(suite)
