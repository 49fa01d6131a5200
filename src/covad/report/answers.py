"""The top of the page, for the main configuration: does it close, how sensitive is it, how sure are we?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covad.inference.closure import DETECTION
from covad.inference.significance import MARK, largest_resolved_z
from covad.inference.verdict import Verdict
from covad.report.names import (
    Injection,
    null_label,
    ordered,
    point_label,
    share,
    shown_reason,
    shown_signs,
    signal_label,
    test_label,
)
from covad.report.tables.closure import PublishedSpread
from covad.report.tables.table import shown
from covad.results.lines import reach_text
from covad.results.overview import (
    ClosureOverview,
    at_central_nu,
    closure_overview,
    largest_z,
    law_of,
    spread_of_z,
)
from covad.results.summary import NullLaw, SignalSignificance, Summary, select


@dataclass(frozen=True)
class Answer:
    """A question, its answer in a few words, and the numbers behind it."""

    question: str
    verdict: str
    good: bool | None
    points: tuple[str, ...]


def answers(summary: Summary, published_spread: PublishedSpread) -> tuple[Answer, ...]:
    """Answer the three questions; a published spread of Z stands beside ours."""
    return _closes(summary), _sensitive(summary, published_spread), _sure(summary)


def _closes(summary: Summary) -> Answer:
    question, main = "Does it close?", summary.main
    overviews = [
        overview
        for test in summary.tests
        if (overview := closure_overview(summary, test, main.configuration)) is not None
    ]
    if not overviews:
        missing = "Not known: there are no background-only toys at shifted ν yet."
        return Answer(question, "not known yet", None, (missing,))
    verdict = Verdict.overall(overview.verdict for overview in overviews)
    said = f"{verdict.value.capitalize()} in the main configuration ({main.label})"
    return Answer(question, said, verdict.good, tuple(_closure_point(overview) for overview in overviews))


def _closure_point(overview: ClosureOverview) -> str:
    moved = overview.worst_shift
    shift = shown_signs(f"{moved.median_shift.shift:+.2f}")
    return (
        f"{test_label(overview.test)}: {overview.verdict} ({shown_reason(overview.reason)}). "
        f"The median of t moves by up to {shift} standard deviations, at {point_label(moved.point).text}."
    )


def _sensitive(summary: Summary, published_spread: PublishedSpread) -> Answer:
    question, main = "How sensitive is it?", summary.main
    lines = at_central_nu(summary, main.configuration)
    if not lines:
        missing = "There are no toys with signals in the main configuration."
        return Answer(question, "not known", None, (missing,))
    injections: dict[str, list[float]] = {}
    for signal, injected in ordered(summary.injections(main.configuration)):
        injections.setdefault(signal, []).append(injected)
    laws = {test: law_of(summary, test, main.configuration) for test in summary.tests}
    points = []
    for signal, yields in injections.items():
        found = []
        for test, law in laws.items():
            z = (_z_against_toys(lines, test, (signal, injected), law) for injected in yields)
            found.append(f"{test_label(test)} {', '.join(z)}")
        shares = ", ".join(share(injected, main.expected) for injected in yields)
        told = f"{signal_label(signal).text}, {shares} at ν = 0: Z against R₀ = {'; '.join(found)}."
        points.append(shown_signs(told))
    points += _spread(summary, published_spread)
    best = largest_z(lines)
    what = f"{signal_label(best.signal).text}, {share(best.injected, main.expected)}"
    largest = shown(f">= {best.z:.2f}" if best.saturated and best.z > 0 else f"= {best.z:.2f}")
    verdict = f"Up to Z {largest} ({what}), {test_label(best.test)} against R₀ in the main configuration"
    return Answer(question, verdict, None, tuple(points))


def _z_against_toys(
    lines: Sequence[SignalSignificance], test: str, injection: Injection, law: NullLaw | None
) -> str:
    """Return Z against R_0; where that is a bound, the law's value stands beside it."""
    mine = {line.null: line for line in select(lines, test=test, signal=injection[0], injected=injection[1])}
    if "R_0" not in mine:
        return "not known"
    told = shown(mine["R_0"].text)
    if law is None or law.name not in mine or not mine["R_0"].saturated:
        return told
    by_law = mine[law.name]
    return f"{told} ({null_label(law.name).text}: {by_law.z:.2f}{MARK if by_law.extrapolated else ''})"


def _spread(summary: Summary, published_spread: PublishedSpread) -> Iterator[str]:
    """Tell the largest change of a significance over nu; the paper's beside one of the same calibration."""
    told, nulls = [], []
    for test in summary.tests:
        spread = spread_of_z(summary, test, summary.main.configuration)
        if spread is not None:
            largest = "not known" if spread.largest is None else f"{spread.largest:.2f}"
            published = published_spread(test, summary.main, spread.null)
            paper = "" if published is None else f" (paper: {published:g})"
            bounds = f" (bounds left out: {spread.bounds})" if spread.bounds else ""
            told.append(f"{test_label(test)} {largest}{paper}{bounds}")
            nulls.append(null_label(spread.null).text)
    if told:
        by = " and ".join(dict.fromkeys(nulls))
        yield f"Largest spread of Z over ν, calibrated by {by}: {', '.join(told)}."


def _sure(summary: Summary) -> Answer:
    toys, main = summary.toys, summary.main
    verdict = "All toys are there" if toys.complete else f"{toys.failed + toys.missing} toys are not there"
    points = [
        f"{toys.requested} toys requested = {toys.done} done + {toys.failed} failed + {toys.missing} missing."
    ]
    for null in select(summary.nulls, configuration=main.configuration)[:1]:
        limit = largest_resolved_z(null.n_toys)
        points.append(
            f"A null of {null.n_toys} toys can tell Z up to {limit:.2f}; beyond it, Z against toys is a "
            "bound (≥)."
        )
    for test in summary.tests:
        points += _alarms(closure_overview(summary, test, main.configuration))
    for space in select(summary.spaces, embedding=main.embedding, order=main.order):
        told = reach_text(space.reach).replace("+-", "±").replace(" sigma", "σ")
        points.append(f"Closure reach, convex test: {told}. The toys here have {main.expected:g} events.")
    return Answer("How sure are we?", verdict, toys.complete, tuple(points))


def _alarms(overview: ClosureOverview | None) -> Iterator[str]:
    """Tell the false positives of the nu that alarms most, where the toys can tell an inflation."""
    found = None if overview is None else overview.alarms
    if overview is None or found is None or found.rate is None or found.detectable_ratio is None:
        return
    ends = (0.0, 1.0) if found.interval is None else (found.interval.low or 0.0, found.interval.high or 1.0)
    low, high = (100 * end for end in ends)
    yield (
        f"{test_label(overview.test)}: up to {100 * found.rate:.1f} % false positives at 2σ, at "
        f"{point_label(overview.most_alarms.point).text} and calibrated by {null_label(found.null).text} "
        f"({low:.1f} to {high:.1f} %; 2.3 % expected). An inflation by "
        f"{found.detectable_ratio:.2g} or more would have been seen with a probability of at least "
        f"{100 * DETECTION:g} %."
    )
