"""The summary in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from covad.inference.closure import SHOWN_LEVEL
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.inference.significance import MARK, MEANING
from covad.inference.statements import can_tell
from covad.inference.verdict import FEWEST_TOYS
from covad.results.overview import (
    ALARM_Z,
    ClosureOverview,
    at_central_nu,
    closure_overview,
    law_of,
    signs_text,
)
from covad.results.summary import ClosureSummary, Summary
from covad.runs.checks import SpaceReach
from covad.study import Collisions, Study
from covad.study.plan import nuisance_names, reach_test, space_label
from covad.study.systematics import NORMALISATION
from covad.toys.truths import point_text


def summary_lines(summary: Summary) -> Iterator[str]:
    """Say what was searched, whether it closes, how far, how sensitive it is, and whether all toys are there.

    Sensitivity is that of the main configuration; the report has all, and every point behind a verdict.
    """
    labels = {c.configuration: c.label for c in summary.configurations}
    yield search_text(summary.study)
    if not summary.closure:
        few = f"fewer than {FEWEST_TOYS} background toys at nu = 0 or at shifted nu"
        yield f"closure: not known yet, there are {few}"
    for test, configuration in dict.fromkeys((line.test, line.configuration) for line in summary.closure):
        overview = closure_overview(summary, test, configuration)
        if overview is not None:
            told = f"{test} test, {labels[configuration]}: {overview.verdict}: {overview.reason}"
            yield told + _alarms(overview)
    for space in summary.spaces:
        name = space_label((space.space, space.order))
        yield f"closure reach of {name}, {reach_test(summary.study)}: {reach_text(space.reach)}"
    if summary.frontier is not None:
        yield from summary.frontier.lines
    for line in at_central_nu(summary, summary.main_configuration):
        if line.null == quoted_null(summary, line.test):
            percent = 100 * line.injected / summary.main.expected
            what = f"{line.injected:g} events of {line.signal} ({percent:.2g} %)"
            mark = f"{MARK} ({MARK} {MEANING})" if line.extrapolated else ""
            yield f"{line.test} test, {summary.main.label}: {what} give a median Z of {line.text}{mark}"
    if signs := signs_text(summary, summary.main_configuration):
        yield signs
    toys = summary.toys
    yield (
        f"toys: {toys.requested} requested = {toys.done} done + {toys.failed} failed + {toys.missing} missing"
    )


def search_text(study: Study) -> str:
    """Say how large the search is, and what is uncertain."""
    sigmas = {NORMALISATION: study.normalisation}
    if isinstance(study.source, Collisions):
        sigmas |= {entry.name: getattr(entry, "sigma", None) for entry in study.source.systematics}
    told = [
        f"{name} (sigma = {sigma:g})" if (sigma := sigmas.get(name)) else name
        for name in nuisance_names(study)
    ]
    return f"search: {study.sizes.expected:g} expected events; nuisances: {', '.join(told) or 'none'}"


def quoted_null(summary: Summary, test: str) -> str:
    """Return the null that observed files are held against: the law where it is exact, else toys."""
    law = law_of(summary, test, summary.main_configuration)
    return law.name if law is not None and law.name == "analytic" else "R_0"


def _alarms(overview: ClosureOverview) -> str:
    """Return the largest share of background toys beyond 2 sigma, as the end of a sentence."""
    found = overview.alarms
    if found is None or found.rate is None:
        return ""
    where = point_text(overview.most_alarms.point)
    return (
        f"; without a signal up to {100 * found.rate:.1f} % of toys pass {ALARM_Z:g} sigma, at {where}, "
        f"where {100 * found.alpha:.1f} % should"
    )


def point_line(line: ClosureSummary) -> str:
    """Return what one point says of closure, with the intervals that the verdict rests on."""
    shift = line.median_shift
    told = [f"median {shift.shift:+.2f} {_ends(shift.interval, '+.2f')} standard deviations"]
    for rate in line.false_positives:
        told_apart = rate.z_alpha == ALARM_Z or (rate.z_alpha > ALARM_Z and can_tell(rate))
        if told_apart and rate.ratio is not None and rate.ratio_interval is not None:
            ratio = f"{rate.ratio:.2f} {_ends(rate.ratio_interval, '.2f')}"
            told.append(f"rate at {rate.z_alpha:g} sigma {ratio} times nominal")
    return f"{point_text(line.point)}: {', '.join(told)} ({line.n_toys} toys, {100 * SHOWN_LEVEL:.0f} %)"


def _ends(interval: Interval, digits: str) -> str:
    low, high = ("open" if end is None else f"{end:{digits}}" for end in (interval.low, interval.high))
    return f"[{low}, {high}]"


def reach_text(reach: SpaceReach) -> str:
    """Say up to how many events a response closes: at each distance from nu = 0, and over the prior."""
    found = {f"at +-{size:g} sigma": smallest for size, smallest in reach.smallest.items()}
    at = ", up to ".join(f"{events_text(smallest)} {where}" for where, smallest in found.items())
    bounded = any(line.n_events and line.interval.high for line in (*found.values(), reach.average))
    unit = "events; 68 % intervals" if bounded else "events"
    return f"closes up to {at}; averaged over the prior up to {events_text(reach.average)} {unit}"


def events_text(reach: Reach) -> str:
    """Return events with their interval; its lower end alone where the estimate or the upper end is open."""
    n, low, high = reach.n_events, reach.interval.low or 0.0, reach.interval.high
    if n is None or high is None:
        return f"at least {_rounded(low)}"
    return f"{_rounded(n)} ({_rounded(low)} to {_rounded(high)})"


def _rounded(n: float) -> str:
    """Return three digits, thousands apart."""
    return f"{float(f'{n:.3g}'):,.0f}".replace(",", " ")
