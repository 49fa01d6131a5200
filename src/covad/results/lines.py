"""The summary in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from covad.results.overview import closure_overview, smallest_reach
from covad.results.summary import Summary, nu_text, select
from covad.runs.checks import ReachAt
from covad.study.plan import space_label


def summary_lines(summary: Summary) -> Iterator[str]:
    """Say whether it closes, how far, how sensitive it is, and whether all toys are there."""
    labels = {c.configuration: c.label for c in summary.configurations}
    for test, configuration in dict.fromkeys((line.test, line.configuration) for line in summary.closure):
        overview = closure_overview(summary, test, configuration)
        if overview is not None:
            shift = overview.worst_shift.median_shift.shift
            yield (
                f"{test}, {labels[configuration]}: {overview.verdict}, "
                f"the median of t moves by up to {shift:+.2f} standard deviations"
            )
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
