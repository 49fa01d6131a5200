"""The choices behind the short answers: worst shift, most alarms, largest Z, spread of Z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from covad.inference.closure import FalsePositives
from covad.inference.reach import Reach
from covad.inference.signs import SignOffset
from covad.inference.statements import ALWAYS_JUDGED_Z, JUDGED_Z, can_tell
from covad.inference.verdict import Verdict
from covad.results.spaces import SpaceSummary
from covad.results.summary import ClosureSummary, NullLaw, SignalPower, SignalSignificance, Summary, select
from covad.runs.checks import Validation
from covad.study import Rule, tests_of_rule
from covad.study.plan import LAWFUL, default_test
from covad.toys.drawing import TOLERATED_OFFSET

#: Threshold at which the short answers quote false positives.
ALARM_Z = 2.0
#: The paper's calibration of Z and power: toys at +1 sigma.
_SHIFTED_NULL = "R_+1"
#: A response misfits fresh events where the smallest p of its comparisons, times their number, is below this.
MISFIT_P = 0.01


def law_of(summary: Summary, test: str, configuration: str) -> NullLaw | None:
    """Return the law that t of R_0 should follow, None where R_0 has no toys."""
    nulls = select(summary.nulls, test=test, configuration=configuration)
    return nulls[0].law if nulls else None


def signs_text(summary: Summary, configuration: str | None = None) -> str:
    """Say how t of toys differs from that of observed data by the signs of weights; empty if it hardly does.

    Without a configuration, the largest difference of all is told.
    """
    lines = select(summary.nulls, **({} if configuration is None else {"configuration": configuration}))
    found = [(line.signs, line.test) for line in lines if line.signs and line.signs.size > TOLERATED_OFFSET]
    if not found:
        return ""
    largest: dict[str, SignOffset] = {}
    for signs, test in sorted(found, key=lambda pair: pair[0].size):
        largest[test] = signs
    told = ", ".join(f"{test} test: by {signs.text}" for test, signs in sorted(largest.items()))
    by_law = " The law of the convex test knows that: its Z is that of observed data."
    if "convex" not in {line.test for line in lines}:
        by_law = ""
    return (
        f"Negative weights make t of toys larger than that of observed data ({told}). Z by toys is one among "
        f"toys, observed data will have less.{by_law}"
    )


@dataclass(frozen=True)
class ClosureOverview:
    """Closure of one test in one configuration, over all points."""

    test: str
    configuration: str
    verdict: Verdict
    reason: str
    smallest_p: float | None  # of goodness of fit against R_0, corrected; None where no test was made
    worst_shift: ClosureSummary  # the point whose median moves most
    most_alarms: ClosureSummary  # the point with the most false positives at ALARM_Z
    judged_z: float  # the largest threshold at which the rates of all points have a say in the verdict

    @property
    def alarms(self) -> FalsePositives | None:
        return self.most_alarms.false_positives_at(ALARM_Z)


def closure_overview(summary: Summary, test: str, configuration: str) -> ClosureOverview | None:
    """Return the verdict and the worst of all points; None where there are no toys at shifted nu."""
    lines = select(summary.closure, test=test, configuration=configuration)
    if not lines:
        return None

    def alarms(line: ClosureSummary) -> float:
        found = line.false_positives_at(ALARM_Z)
        return -1.0 if found is None or found.ratio is None else found.ratio

    p = [found.corrected_p for line in lines for found in line.against_null]
    rates = [line.false_positives_at(JUDGED_Z) for line in lines]
    told_apart = all(rate is not None and can_tell(rate) for rate in rates)
    return ClosureOverview(
        test=test,
        configuration=configuration,
        verdict=lines[0].verdict,
        reason=lines[0].reason,
        smallest_p=min(p, default=None),
        worst_shift=max(lines, key=lambda line: abs(line.median_shift.shift)),
        most_alarms=max(lines, key=alarms),
        judged_z=JUDGED_Z if told_apart else ALWAYS_JUDGED_Z,
    )


@dataclass(frozen=True)
class ResponseOverview:
    """How well a response describes fresh events, and whether that is well enough for so many events."""

    space: SpaceSummary
    worst: Validation | None  # the comparison of smallest p; None where there is none
    comparisons: int
    reach: Reach  # the smallest one: over the prior, and at the distances at which toys are drawn
    size: float | None  # that distance from nu = 0, in sigma; None for the average over the prior
    expected: float

    @property
    def misfits(self) -> bool:
        return self.worst is not None and self.worst.p * self.comparisons < MISFIT_P

    @property
    def enough(self) -> bool:
        """Return whether the misfit is shown to be too small to move t at the expected number of events."""
        return (self.reach.interval.low or 0.0) >= self.expected


def response_overview(summary: Summary, space: SpaceSummary) -> ResponseOverview:
    """Return the worst comparison with fresh events, and the events up to which it does not matter."""
    known = [line for line in space.validation if not math.isnan(line.p)]
    drawn = max((abs(x) for nu in summary.points for x in nu), default=0.0)
    found: list[tuple[float | None, Reach]] = [(None, space.reach.average)]
    found += [(size, reach) for size, reach in space.reach.smallest.items() if size <= max(drawn, 1.0)]
    size, reach = min(found, key=lambda each: each[1].interval.low or 0.0)
    return ResponseOverview(
        space=space,
        worst=min(known, key=lambda line: line.p, default=None),
        comparisons=len(known),
        reach=reach,
        size=size,
        expected=summary.main.expected,
    )


def quoted_test(summary: Summary) -> tuple[str, str]:
    """Return the test that the short answers are about, whose p is quoted, and the null of that p."""
    test = default_test(summary.study)
    return test, "analytic" if test in LAWFUL else "R_0"


def closure_of_quoted(summary: Summary, configuration: str) -> ClosureOverview | None:
    """Return closure of the test that the p which the study quotes needs."""
    return closure_of_rule(summary, summary.study.rule, configuration)


def closure_of_rule(summary: Summary, rule: Rule, configuration: str) -> ClosureOverview | None:
    """Return closure of the test that a p by this rule needs; of two, that of the one which decides.

    None where one of them has no toys at shifted nu.
    """
    needed = sorted(tests_of_rule(rule), key=lambda test: test != quoted_test(summary)[0])
    found = [closure_overview(summary, test, configuration) for test in needed]
    known = [overview for overview in found if overview is not None]
    if len(known) < len(found):
        return None
    verdict = Verdict.overall(overview.verdict for overview in known)
    return next(overview for overview in known if overview.verdict is verdict)


def quoted_first(summary: Summary) -> list[str]:
    """Return the tests of a study, the one whose p is quoted first."""
    return sorted(summary.tests, key=lambda test: test != quoted_test(summary)[0])


def calibration_of(
    lines: Sequence[SignalSignificance] | Sequence[SignalPower], test: str, configuration: str
) -> str:
    """Return the paper's null, R_0 for a configuration that has no toys at +1 sigma."""
    known = select(lines, test=test, configuration=configuration, null=_SHIFTED_NULL)
    return _SHIFTED_NULL if known else "R_0"


@dataclass(frozen=True)
class SpreadOfZ:
    """The largest difference of Z between two nu, over all signals; bounds have none and are counted."""

    null: str
    largest: float | None
    bounds: int


def spread_of_z(summary: Summary, test: str, configuration: str) -> SpreadOfZ | None:
    """Return how much Z depends on the true nu, which a robust test does not feel.

    None where no signal has toys at several nu.
    """
    null = calibration_of(summary.significance, test, configuration)
    mine = select(summary.significance, test=test, configuration=configuration, null=null)
    spreads, bounds = [], 0
    for signal, injected in summary.injections(configuration):
        lines = select(mine, signal=signal, injected=injected)
        z = [line.z for line in lines if not line.saturated]
        bounds += len(lines) - len(z) if len(lines) > 1 else 0
        spreads += [max(z) - min(z)] if len(z) > 1 else []
    return SpreadOfZ(null, max(spreads, default=None), bounds) if spreads or bounds else None


def at_central_nu(summary: Summary, configuration: str) -> list[SignalSignificance]:
    """Return the significances of a configuration at nu = 0."""
    mine = select(summary.significance, configuration=configuration)
    return [line for line in mine if not any(line.nu)]


def largest_z(lines: Sequence[SignalSignificance], test: str, null: str) -> SignalSignificance | None:
    """Return the largest Z of one test against one null: among several, the largest is large by chance."""
    return max(select(lines, test=test, null=null), key=lambda line: line.z, default=None)
