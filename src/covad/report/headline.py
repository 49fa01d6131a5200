"""The top of the page, for the main configuration: does it close, how sensitive is it, how sure are we?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy.stats import norm

from covad.inference.closure import DETECTION
from covad.report.evidence import Configuration, Evidence, Line
from covad.report.names import nu_label, null_label, share, signal_label, test_label
from covad.report.paper.tables import LAWS, ordered
from covad.report.spread import SpreadOfZ, spread_of_z
from covad.report.tables.table import shown
from covad.report.verdicts import overall, word
from covad.results.extrapolated import MARK
from covad.results.headlines import reach_text

_CLOSES = {True: "Yes,", False: "No,", None: "Not known: too few toys"}


@dataclass(frozen=True)
class Answer:
    """A question, its answer in a few words, and the numbers behind it."""

    question: str
    verdict: str
    good: bool | None
    points: tuple[str, ...]


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    main = main_configuration(evidence)
    return (_closes(evidence, main), _sensitive(evidence, main), _sure(evidence, main))


def main_configuration(evidence: Evidence) -> Configuration:
    """The one that `covad.study.plan.main_configuration` chose."""
    chosen = evidence.summary["headline"]["configuration"]
    return next(c for c in evidence.configurations if c.name == chosen)


def _closes(evidence: Evidence, main: Configuration) -> Answer:
    question = "Does it close?"
    lines = evidence.lines("closure", configuration=main.name)
    if not lines:
        missing = "Not known: there are no background-only toys at shifted ν yet."
        return Answer(question, "not known yet", None, (missing,))
    by_test = {test: [line for line in lines if line["test"] == test] for test in evidence.tests}
    points = tuple(_closure_point(test, mine) for test, mine in by_test.items() if mine)
    closes = overall(lines)
    return Answer(question, f"{_CLOSES[closes]} in the main configuration ({main.short})", closes, points)


def _closure_point(test: str, lines: Sequence[Line]) -> str:
    worst = max(lines, key=lambda line: abs(line["median_shift"]["shift"]))
    shift = worst["median_shift"]
    low, high = shift["interval95"]["low"], shift["interval95"]["high"]
    smallest = min((found["corrected_p"] for line in lines for found in line["against_null"]), default=None)
    p = "" if smallest is None else f"smallest corrected p {smallest:.2g}; "
    return shown_signs(
        f"{test_label(test)}: {word(overall(lines))} ({p}median of t moves by "
        f"{shift['shift']:+.2f} standard deviations at {nu_label(worst['nu']).text}, "
        f"95 % interval {low:+.2f} to {high:+.2f})."
    )


def shown_signs(text: str) -> str:
    """Minus signs before numbers; a hyphen inside a word stays."""
    return re.sub(r"(?<!\w)-(?=\.?\d)", "−", text)


def _sensitive(evidence: Evidence, main: Configuration) -> Answer:
    question = "How sensitive is it?"
    lines = [line for line in evidence.lines("significance", configuration=main.name) if not any(line["nu"])]
    if not lines:
        missing = "There are no toys with signals in the main configuration."
        return Answer(question, "not known", None, (missing,))
    injections: dict[str, list[float]] = {}
    for signal, injected in ordered(evidence.injections(main)):
        injections.setdefault(signal, []).append(injected)
    points = [
        _sensitivity_point(lines, signal, injected, main, evidence.tests)
        for signal, injected in injections.items()
    ]
    spread = _spread(evidence, main)
    return Answer(question, _largest_z(lines, main), None, (*points, *([spread] if spread else ())))


def _largest_z(lines: Sequence[Line], main: Configuration) -> str:
    """Of one test against one null: among all of them, the largest would be large by chance."""
    first = lines[0]["test"]
    mine = [line for line in lines if (line["test"], line["null"]) == (first, "R_0")]
    best = max(mine, key=lambda line: float(line["z"]))
    what = f"{signal_label(best['signal']).text}, {share(best['injected'], main.expected)}"
    z = shown(f">= {best['z']:.2f}" if best["saturated"] and best["z"] > 0 else f"= {best['z']:.2f}")
    return f"Up to Z {z} ({what}), {test_label(first)} against R₀ in the main configuration"


def _sensitivity_point(
    lines: Sequence[Line], signal: str, yields: Sequence[float], main: Configuration, tests: Sequence[str]
) -> str:
    """All yields of one signal, against R_0."""
    shares = ", ".join(share(injected, main.expected) for injected in yields)
    found = []
    for test in tests:
        z = [_z_against_toys(lines, test, signal, injected) for injected in yields]
        found.append(f"{test_label(test)} {', '.join(z)}")
    what = f"{signal_label(signal).text}, {shares} at ν = 0"
    return shown_signs(f"{what}: Z against R₀ = {'; '.join(found)}.")


def _z_against_toys(lines: Sequence[Line], test: str, signal: str, injected: float) -> str:
    """Against R_0; where that is a bound, the law's value beside it."""
    mine = {
        line["null"]: line
        for line in lines
        if (line["test"], line["signal"], line["injected"]) == (test, signal, injected)
    }
    if "R_0" not in mine:
        return "not known"
    law = mine.get(LAWS.get(test, ""))
    told = shown(mine["R_0"]["text"])
    if law is None or not mine["R_0"]["saturated"]:
        return told
    mark = MARK if law["extrapolated"] else ""
    return f"{told} ({null_label(law['null']).text}: {law['z']:.2f}{mark})"


def _spread(evidence: Evidence, main: Configuration) -> str | None:
    """The largest change of a significance over nu; the paper's beside one of the same calibration."""
    found = {test: spread_of_z(evidence, main, test) for test in evidence.tests}
    told = [f"{test_label(test)} {_spread_text(spread)}" for test, spread in found.items() if spread]
    if not told:
        return None
    by = " and ".join(dict.fromkeys(null_label(spread.null).text for spread in found.values() if spread))
    return f"Largest spread of Z over ν, calibrated by {by}: {', '.join(told)}."


def _spread_text(spread: SpreadOfZ) -> str:
    largest = "not known" if spread.largest is None else f"{spread.largest:.2f}"
    paper = "" if spread.paper is None else f" (paper: {spread.paper:g})"
    return largest + paper + (f" (bounds left out: {spread.bounds})" if spread.bounds else "")


def _sure(evidence: Evidence, main: Configuration) -> Answer:
    toys = evidence.summary["toys"]
    complete = toys["failed"] == toys["missing"] == 0
    verdict = "All toys are there" if complete else f"{toys['failed'] + toys['missing']} toys are not there"
    counted = f"{toys['requested']} toys requested = {toys['done']} done + {toys['failed']} failed"
    points = [f"{counted} + {toys['missing']} missing.", *_limits(evidence, main), *_reach(evidence, main)]
    return Answer("How sure are we?", verdict, complete, tuple(points))


def _limits(evidence: Evidence, main: Configuration) -> Iterator[str]:
    """What so many toys can tell."""
    for null in evidence.lines("nulls", configuration=main.name)[:1]:
        n = null["n_toys"]
        limit = norm.isf(1.0 / (n + 1))
        yield f"A null of {n} toys can tell Z up to {limit:.2f}; beyond it, Z against toys is a bound (≥)."
    for test in evidence.tests:
        rates = [
            (line, rate)
            for line in evidence.lines("closure", test=test, configuration=main.name)
            for rate in line["false_positives"]
            if rate["sigma"] == 2.0 and rate["detectable_ratio"]
        ]
        if rates:
            yield _false_positive_point(*max(rates, key=lambda found: float(found[1]["observed"])))


def _false_positive_point(line: Line, rate: Line) -> str:
    """Of the shifted ensemble that alarms most."""
    observed, low, high = (100 * rate[key] for key in ("observed", "low", "high"))
    by, at = null_label(line["false_positives_null"]).text, nu_label(line["nu"]).text
    return (
        f"{test_label(line['test'])}: up to {observed:.1f} % false positives at 2σ, at {at} and "
        f"calibrated by {by} ({low:.1f} to {high:.1f} %; 2.3 % expected). An inflation by "
        f"{rate['detectable_ratio']:.2g} or more would have been seen with a probability of at least "
        f"{100 * DETECTION:g} %."
    )


def _reach(evidence: Evidence, main: Configuration) -> Iterator[str]:
    space = evidence.line("spaces", embedding=main.embedding, order=main.order)
    for reach in [] if space is None else space["reach"]:
        yield (
            f"Closure reach of the convex test at {nu_label(reach['nu']).text}: {shown(reach_text(reach))} "
            f"(the toys here have {main.expected:g})."
        )
