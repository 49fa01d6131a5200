"""The short answers: what the data say, whether the test closes, how sensitive and how trustworthy it is.

They are about the main configuration and the test whose p is quoted. A colour says no more than the words do:
green only where something good is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from covad.inference.significance import MARK, MEANING, largest_resolved_z
from covad.inference.verdict import FEWEST_TOYS, Verdict
from covad.nplm.fit import Status
from covad.observed.lines import question_text
from covad.observed.result import Observation
from covad.report.evidence import Evidence
from covad.report.names import (
    NO_BREAK,
    Injection,
    null_label,
    number,
    ordered,
    point_label,
    share,
    shown_errors,
    shown_p,
    shown_reason,
    shown_signs,
    signal_label,
    test_label,
)
from covad.report.tables.closure import PublishedSpread
from covad.report.tables.table import shown
from covad.results.overview import (
    ClosureOverview,
    ResponseOverview,
    at_central_nu,
    closure_of_quoted,
    closure_of_rule,
    closure_overview,
    largest_z,
    quoted_test,
    response_overview,
    signs_text,
    spread_of_z,
)
from covad.results.summary import SignalSignificance, Summary, select
from covad.runs.smoothing import smoothing_doubt
from covad.toys.ensembles import Treatment


class Tone(StrEnum):
    """The colour of an answer: green, red, amber for what is not shown yet, grey for a plain number."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"
    PLAIN = "plain"


_TONES = {Verdict.CLOSES: Tone.GOOD, Verdict.DOES_NOT_CLOSE: Tone.BAD, Verdict.CANNOT_TELL: Tone.OPEN}
#: Warnings on an observed file that its card repeats; the chapter has all.
_SHOWN_WARNINGS = 2


@dataclass(frozen=True)
class Answer:
    """A question, its answer in a few words, its colour, and the numbers behind it."""

    question: str
    verdict: str
    tone: Tone
    points: tuple[str, ...]


def answers(evidence: Evidence, published_spread: PublishedSpread) -> tuple[Answer, ...]:
    """Answer the questions, that of the data first; a published spread of Z stands beside ours."""
    summary = evidence.summary
    data = [_data(summary, evidence.observed)] if evidence.observed else []
    return (*data, _closes(summary), _sensitive(summary, published_spread), _trusted(summary))


def _verdict(summary: Summary, configuration: str) -> Verdict | None:
    """Return the verdict on the p that is quoted; None where nothing is known."""
    overview = closure_of_quoted(summary, configuration)
    return None if overview is None else overview.verdict


def _data(summary: Summary, observed: Sequence[Observation]) -> Answer:
    """Quote p and Z of every observed file; a result has no colour, one that must not be quoted has."""
    told = {observation.name: shown_signs(_quoted(observation)) for observation in observed}
    asked = {
        observation.name: f"{observation.file} ({shown_signs(question_text(observation, summary))})"
        for observation in observed
    }
    failed = any(observation.p is None for observation in observed)
    points = []
    if len(observed) > 1:
        points += [f"{asked[observation.name]}: {told[observation.name]}." for observation in observed]
        verdict = f"{len(observed)} answers; the smallest p is one of {len(observed)} looks"
    else:
        (only,) = observed
        verdict = told[only.name].capitalize() if failed else told[only.name]
        events = f"{number(only.n_selected)} events selected, {number(only.expected)} expected"
        points.append(
            f"{asked[only.name]}: {events}. {test_label(only.rule).capitalize()}, {only.answer.how}."
        )
    if any(observation.answer.extrapolated for observation in observed):
        points.append(f"{MARK} {MEANING}.")
    doubtful = [observation for observation in observed if observation.answer.status is Status.UNCONVERGED]
    points += [f"{asked[each.name]}: its fit did not converge, its p is doubtful." for each in doubtful]
    for observation in observed:
        points += [f"Warning: {line}." for line in observation.warnings[:_SHOWN_WARNINGS]]
    labels = {(observation.rule, observation.configuration): observation.label for observation in observed}
    closure = {key: closure_of_rule(summary, *key) for key in labels}
    verdicts = {key: None if found is None else found.verdict for key, found in closure.items()}
    for key, found in verdicts.items():
        if found is Verdict.DOES_NOT_CLOSE:
            points.append(f"The test does not close ({labels[key]}): do not quote this p.")
        elif found is not Verdict.CLOSES:
            points.append(f"Closure is not shown yet ({labels[key]}): this p may not be calibrated.")
    off = [(each.name, signs) for each in observed if (signs := each.off_by_signs)]
    for name, signs in off:
        larger = shown_errors(f"t of its toys is larger than that of observed data by {signs.text}")
        points.append(f"{asked[name]}: {larger}, because of negative weights: do not quote this p.")
    tone = Tone.OPEN if doubtful else Tone.PLAIN
    if failed or off or Verdict.DOES_NOT_CLOSE in verdicts.values():
        tone = Tone.BAD
    return Answer("What do the data say?", verdict, tone, tuple(points))


def _quoted(observation: Observation) -> str:
    answer = observation.answer
    if answer.p is None or answer.z is None:
        return "no result, the fit failed"
    above = answer.bound and answer.z > 0
    p = f"p {'≤' if above else '='} {shown_p(answer.p)}"
    sign = "=" if not answer.bound else "≥" if above else "≤"
    return f"{p}, Z {sign} {answer.z:.2f}{MARK if answer.extrapolated else ''}"


def _closes(summary: Summary) -> Answer:
    """Tell the verdict on the quoted p; other tests, and the test without nuisances, stand below it."""
    question, main = "Does it close?", summary.main
    overview = closure_of_quoted(summary, main.configuration)
    if overview is None:
        missing = f"There are fewer than {FEWEST_TOYS} toys per ensemble at ν = 0 or at shifted ν."
        return Answer(question, "Not known yet", Tone.OPEN, (missing,))
    said = {
        Verdict.CLOSES: f"Yes, the {test_label(overview.test)} closes",
        Verdict.DOES_NOT_CLOSE: f"No, the {test_label(overview.test)} does not close",
        Verdict.CANNOT_TELL: "Cannot tell yet",
    }[overview.verdict]
    points = [_sentence(shown_reason(overview.reason)), _largest_shift(overview)]
    tone = _TONES[overview.verdict]
    for other in summary.tests:
        beside = closure_overview(summary, other, main.configuration)
        if other == overview.test or beside is None:
            continue
        why = "" if beside.verdict is Verdict.CLOSES else f" ({shown_reason(beside.reason)})"
        points.append(f"{test_label(other).capitalize()}: {beside.verdict}{why}.")
        if tone is Tone.GOOD and beside.verdict is Verdict.DOES_NOT_CLOSE:
            tone = Tone.OPEN
    for configuration in summary.configurations:
        if configuration.treatment is Treatment.NONE and configuration != main:
            without = closure_overview(summary, overview.test, configuration.configuration)
            if without is not None:
                points.append(f"For comparison, {configuration.label}: {without.verdict}.")
    return Answer(question, said, tone, tuple(points))


def _largest_shift(overview: ClosureOverview) -> str:
    moved = overview.worst_shift
    shift = shown_signs(f"{moved.median_shift.shift:+.2f}")
    where = point_label(moved.point).text
    return f"The median of t moves most at {where}: by {shift} standard deviations."


def _sensitive(summary: Summary, published_spread: PublishedSpread) -> Answer:
    """Tell the median Z of every signal against the null whose p is quoted."""
    question, main = "How sensitive is it?", summary.main
    test, null = quoted_test(summary)
    lines = at_central_nu(summary, main.configuration)
    best = largest_z(lines, test, null)
    if best is None:
        missing = "The study injects no signals."
        if summary.injections(main.configuration):
            missing = f"There are fewer than {FEWEST_TOYS} toys per ensemble with signals."
        return Answer(question, "Not known", Tone.OPEN, (missing,))
    signal = signal_label(best.signal).text.replace(" ", NO_BREAK)
    what = f"{share(best.injected, main.expected)} of {signal}"
    sign = "=" if not best.saturated else "≥" if best.z > 0 else "≤"
    verdict = shown_signs(f"Z {sign} {best.z:.2f}{MARK if best.extrapolated else ''} for {what}")
    points = []
    injections: dict[str, list[Injection]] = {}
    for injection in ordered(summary.injections(main.configuration)):
        injections.setdefault(injection[0], []).append(injection)
    nulls = {test: null} | {other: "R_0" for other in summary.tests_of(main.configuration) if other != test}
    for name, mine in injections.items():
        shares = ", ".join(share(injected, main.expected) for _, injected in mine)
        found = []
        for other, against in nulls.items():
            z = ", ".join(_median_z(lines, other, injection, against) for injection in mine)
            found.append(z if other == test else f"{test_label(other)}: {z}")
        points.append(shown_signs(f"{signal_label(name).text}, {shares}: Z = {'; '.join(found)}."))
    by = f"calibrated by {null_label(null).text}" if null != "R_0" else "calibrated by toys"
    marks = f" {MARK} {MEANING}." if any(MARK in point for point in points) else ""
    points.append(f"Medians of toys at ν = 0; {test_label(test)}, {by}. ≥ is a bound.{marks}")
    points += _spread(summary, published_spread)
    if signs := signs_text(summary, main.configuration):
        points.append(shown_errors(signs))
    if _verdict(summary, main.configuration) is Verdict.DOES_NOT_CLOSE:
        points.append("The test does not close: these Z are not calibrated.")
    return Answer(question, verdict, Tone.PLAIN, tuple(points))


def _median_z(lines: Sequence[SignalSignificance], test: str, injection: Injection, null: str) -> str:
    mine = select(lines, test=test, signal=injection[0], injected=injection[1], null=null)
    return f"{shown(mine[0].text)}{MARK if mine[0].extrapolated else ''}" if mine else "not known"


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


def _trusted(summary: Summary) -> Answer:
    """Weigh closure, the toys that are there and the response: the weakest of them decides."""
    question, toys, main = "Can it be trusted?", summary.toys, summary.main
    test, null = quoted_test(summary)
    mine = select(summary.spaces, space=main.space, order=main.order)
    responses = [response_overview(summary, space) for space in mine]
    nulls = select(summary.nulls, test=test, configuration=main.configuration)
    overview = closure_of_quoted(summary, main.configuration)
    beside = [closure_overview(summary, other, main.configuration) for other in summary.tests]
    tone = Tone.OPEN
    if overview is None or overview.verdict is Verdict.CANNOT_TELL:
        verdict = "Not yet: closure is not shown"
    elif overview.verdict is Verdict.DOES_NOT_CLOSE:
        verdict, tone = "No: its p-values are not calibrated", Tone.BAD
    elif toys.missing:
        verdict = f"Not yet: {number(toys.missing)} toys are missing"
    elif toys.failed:
        verdict = f"With care: {number(toys.failed)} fits failed"
    elif any(other is not None and other.verdict is Verdict.DOES_NOT_CLOSE for other in beside):
        verdict = f"With care: only the {test_label(test)} closes"
    elif not all(found.enough for found in responses):
        verdict = f"With care: the response may be too coarse for {number(main.expected)} events"
    else:
        verdict, tone = f"Yes, to {overview.judged_z:g}σ: closure is shown so far", Tone.GOOD
    parts = " + ".join(f"{number(getattr(toys, part))} {part}" for part in ("done", "failed", "missing"))
    points = [f"Toys: {number(toys.requested)} requested = {parts}."]
    if nulls:
        told, n_toys = "test the law of t" if null == "analytic" else "resolve Z", nulls[0].n_toys
        points.append(f"{number(n_toys)} background toys {told} up to Z = {largest_resolved_z(n_toys):.2f}.")
    points += [_response(found) for found in responses]
    points += [
        _sentence(doubt) for space in mine if (doubt := smoothing_doubt(space.smoothing, summary.shape_names))
    ]
    for space in summary.spaces:
        if space not in mine and (found := response_overview(summary, space)).misfits and found.worst:
            label = f"{space.space}, {space.response}"
            points.append(f"Other space ({label}): misfit, p = {shown_p(found.worst.p)}.")
    return Answer(question, verdict, tone, tuple(points))


def _response(found: ResponseOverview) -> str:
    """Say whether the response describes fresh events, and what a misfit means for the verdict."""
    reach, low = found.reach, found.reach.interval.low or 0.0
    bounded = reach.n_events is None or reach.interval.high is None
    events = f"at least {_rounded(low)}" if bounded else _rounded(reach.n_events or 0.0)
    if found.worst is None:
        told = "The response was not compared with fresh events."
    elif found.misfits:
        # below zero, the squared misfit is less than its noise, and has no size
        left = found.worst.residual_share
        size = f", {100 * left:.0f} % of the shift" if left > 0 else ""
        size += " (worse than no response)" if left >= 1 else ""
        told = (
            f"The response misfits fresh events: p = {shown_p(found.worst.p)}, the smallest of "
            f"{found.comparisons}{size}."
        )
    else:
        smallest = f"smallest p = {shown_p(found.worst.p)} of {found.comparisons}"
        told = f"The response describes fresh events ({smallest})."
    if found.enough:
        meant = f"A misfit like this moves t by {reach.at_shift:g} standard deviations only from"
        where = "over the prior" if found.size is None else f"at ν = ±{found.size:g}σ"
        end = f"{events} events on ({where}); this study has {number(found.expected)}."
        return f"{told} {meant} {end}"
    return (
        f"{told} A misfit that would move t is excluded up to {_rounded(low)} events only, this study has "
        f"{number(found.expected)}. The closure verdict includes it: its toys are truly shifted events."
    )


def _rounded(events: float) -> str:
    return number(float(f"{events:.3g}"))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
