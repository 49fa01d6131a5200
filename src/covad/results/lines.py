"""The summary in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from covad.inference.closure import SHOWN_LEVEL
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.inference.verdict import can_tell, point_text
from covad.results.overview import ALARM_Z, closure_overview
from covad.results.summary import ClosureSummary, Summary, select
from covad.runs.checks import SpaceReach
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
        name = space_label((space.embedding, space.order))
        yield f"closure reach of {name}, convex test: {reach_text(space.reach)}"
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
    at = ", up to ".join(f"{_events(smallest)} {where}" for where, smallest in found.items())
    bounded = any(line.n_events and line.interval.high for line in (*found.values(), reach.average))
    unit = "events; 68 % intervals" if bounded else "events"
    return f"closes up to {at}; averaged over the prior up to {_events(reach.average)} {unit}"


def _events(reach: Reach) -> str:
    """Return events with their interval; its lower end alone where the estimate or the upper end is open."""
    n, low, high = reach.n_events, reach.interval.low or 0.0, reach.interval.high
    if n is None or high is None:
        return f"at least {_rounded(low)}"
    return f"{_rounded(n)} ({_rounded(low)} to {_rounded(high)})"


def _rounded(n: float) -> str:
    """Return three digits, thousands apart."""
    return f"{float(f'{n:.3g}'):,.0f}".replace(",", " ")
