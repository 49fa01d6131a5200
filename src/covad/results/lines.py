"""The summary in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from covad.inference.closure import SHOWN_LEVEL
from covad.inference.intervals import Interval
from covad.inference.verdict import point_text
from covad.results.overview import ALARM_Z, closure_overview, smallest_reach
from covad.results.summary import ClosureSummary, Summary, nu_text, select
from covad.runs.checks import ReachAt
from covad.study.plan import space_label


def summary_lines(summary: Summary) -> Iterator[str]:
    """Say whether it closes, how far, how sensitive it is, and whether all toys are there.

    The points behind a verdict are listed for the main configuration; the report has all.
    """
    labels = {c.configuration: c.label for c in summary.configurations}
    for test, configuration in dict.fromkeys((line.test, line.configuration) for line in summary.closure):
        overview = closure_overview(summary, test, configuration)
        if overview is not None:
            yield f"{test}, {labels[configuration]}: {overview.verdict}: {overview.reason}"
        if configuration == summary.main_configuration:
            for point in select(summary.closure, test=test, configuration=configuration):
                yield f"  {point_line(point)}"
    for space in summary.spaces:
        if space.reach:
            name = space_label((space.embedding, space.order))
            yield f"closure reach of {name} for the convex test: {_least_reach(space.reach)}"
    for line in select(summary.significance, null="R_0"):
        if not any(line.nu):
            what = f"{line.injected:g} events of {line.signal}"
            yield f"{line.test}, {labels[line.configuration]}: {what} give a median Z of {line.text}"
    toys = summary.toys
    yield (
        f"toys: {toys.requested} requested = {toys.done} done + {toys.failed} failed + {toys.missing} missing"
    )


def point_line(line: ClosureSummary) -> str:
    """Return what one point says of closure, with the intervals that the verdict rests on."""
    shift = line.median_shift
    told = [f"median {shift.shift:+.2f} {_ends(shift.interval, '+.2f')} standard deviations"]
    for rate in line.false_positives:
        if rate.z_alpha >= ALARM_Z and rate.ratio is not None and rate.ratio_interval is not None:
            ratio = f"{rate.ratio:.2f} {_ends(rate.ratio_interval, '.2f')}"
            told.append(f"rate at {rate.z_alpha:g} sigma {ratio} times nominal")
    return f"{point_text(line.point)}: {', '.join(told)} ({line.n_toys} toys, {100 * SHOWN_LEVEL:.0f} %)"


def _ends(interval: Interval, digits: str) -> str:
    low, high = ("open" if end is None else f"{end:{digits}}" for end in (interval.low, interval.high))
    return f"[{low}, {high}]"


def _least_reach(lines: Sequence[ReachAt]) -> str:
    """Return the smallest estimate with its interval, and what holds at every nu if that is less."""
    smallest, everywhere = smallest_reach(lines)
    if smallest is None:
        return _at_least(everywhere)
    others = f"; {_at_least(everywhere)} at every nu" if everywhere < (smallest.interval.low or 0.0) else ""
    return f"{reach_text(smallest)} at nu = {nu_text(smallest.nu)}{others}"


def reach_text(reach: ReachAt) -> str:
    """Return events with their 68 % interval; its lower end alone where the estimate or the upper is open."""
    n, low, high = reach.n_events, reach.interval.low or 0.0, reach.interval.high
    if n is None or high is None:
        return _at_least(low)
    return f"{_rounded(n)} events (68 % interval: {_rounded(low)} to {_rounded(high)})"


def _at_least(n: float) -> str:
    return f">= {_rounded(n)} events"


def _rounded(n: float) -> str:
    """Return three digits, thousands apart."""
    return f"{float(f'{n:.3g}'):,.0f}".replace(",", " ")
