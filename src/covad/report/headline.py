"""The top of the page: does it close, how sensitive is it, how sure are we?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy.stats import norm

from covad.report.evidence import Configuration, Evidence, Line
from covad.report.names import nu_label, null_label, share, signal_label, test_label
from covad.report.paper import read_paper
from covad.report.paper_tables import LAWS, ordered
from covad.report.table import shown
from covad.report.verdicts import overall, word
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
    """The one that `covad.campaign.main_configuration` chose."""
    chosen = evidence.summary["headline"]["configuration"]
    return next(c for c in evidence.configurations if c.name == chosen)


def _closes(evidence: Evidence, main: Configuration) -> Answer:
    question = "Does it close?"
    verdicts = [
        (test, configuration, lines)
        for configuration in evidence.configurations
        for test in evidence.tests
        if (lines := evidence.lines("closure", test=test, configuration=configuration.name))
    ]
    mine = [line for _, configuration, lines in verdicts if configuration == main for line in lines]
    if not mine:
        missing = "Not known: there are no background-only toys at shifted ν yet."
        return Answer(question, "not known yet", None, (missing,))
    points = tuple(_closure_point(*verdict) for verdict in verdicts)
    closes = overall(mine)
    return Answer(question, f"{_CLOSES[closes]} in the main configuration ({main.short})", closes, points)


def _closure_point(test: str, configuration: Configuration, lines: Sequence[Line]) -> str:
    worst = max(lines, key=lambda line: abs(line["median_shift"]["shift"]))
    shift = worst["median_shift"]
    low, high = shift["interval95"]["low"], shift["interval95"]["high"]
    smallest = min((found["corrected_p"] for line in lines for found in line["against_null"]), default=None)
    p = "" if smallest is None else f"smallest corrected p {smallest:.2g}; "
    return shown_signs(
        f"{test_label(test)}, {configuration.short}: {word(overall(lines))} ({p}median of t moves by "
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
    points = [
        _sensitivity_point(lines, injection, main, evidence.tests)
        for injection in ordered(evidence.injections(main))
    ]
    spreads = [text for c in evidence.configurations if (text := _spread(evidence, c))]
    return Answer(question, _largest_z(lines, main), None, (*points, *spreads))


def _largest_z(lines: Sequence[Line], main: Configuration) -> str:
    """Of one test against one null: among all of them, the largest would be large by chance."""
    first = lines[0]["test"]
    mine = [line for line in lines if (line["test"], line["null"]) == (first, "R_0")]
    best = max(mine, key=lambda line: float(line["z"]))
    what = f"{signal_label(best['signal']).text}, {share(best['injected'], main.expected)}"
    z = shown(f">= {best['z']:.2f}" if best["saturated"] and best["z"] > 0 else f"= {best['z']:.2f}")
    return f"Up to Z {z} ({what}), {test_label(first)} against R₀ in the main configuration"


def _sensitivity_point(
    lines: Sequence[Line], injection: tuple[str, float], main: Configuration, tests: Sequence[str]
) -> str:
    found = []
    for test in tests:
        for null, name in (("R_0", "R₀"), (LAWS.get(test, ""), "its law")):
            for line in lines:
                if (line["signal"], line["injected"], line["test"], line["null"]) == (*injection, test, null):
                    found.append(f"{test_label(test)} {shown(line['text'])} against {name}")
    what = f"{signal_label(injection[0]).text}, {share(injection[1], main.expected)} at ν = 0"
    return f"{what}: Z = {'; '.join(found) or 'not known'}."


def _spread(evidence: Evidence, configuration: Configuration) -> str | None:
    """The largest change of a significance over nu, for every test that has signals at several nu."""
    found = [text for test in evidence.tests if (text := _spread_of(evidence, configuration, test))]
    if not found:
        return None
    paper = read_paper()
    same_sizes = paper.comparable(configuration.expected, configuration.reference)
    compared = same_sizes and configuration.treatment == "profiled" and configuration.order == 1
    known = paper.spread_of_z.get(configuration.kind or "") if compared else None
    beside = "" if known is None else f" (paper: {known:g}, calibrated by R₊₁)"
    return f"Largest spread of Z over ν against R₀, {configuration.short}: {', '.join(found)}{beside}."


def _spread_of(evidence: Evidence, configuration: Configuration, test: str) -> str | None:
    """Bounds have no spread: they are left out, and counted."""
    spreads, bounds = [], 0
    key = {"test": test, "configuration": configuration.name, "null": "R_0"}
    for signal, injected in evidence.injections(configuration):
        lines = evidence.lines("significance", **key, signal=signal, injected=injected)
        z = [line["z"] for line in lines if not line["saturated"]]
        bounds += len(lines) - len(z) if len(lines) > 1 else 0
        spreads += [max(z) - min(z)] if len(z) > 1 else []
    if not spreads and not bounds:
        return None
    largest = f"{max(spreads):.2f}" if spreads else "not known"
    return f"{test_label(test)} {largest}" + (f" (bounds left out: {bounds})" if bounds else "")


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
    for line in evidence.lines("closure", configuration=main.name):
        for rate in line["false_positives"]:
            if rate["sigma"] == 2.0 and rate["detectable_ratio"]:
                yield _false_positive_point(line, rate)


def _false_positive_point(line: Line, rate: Line) -> str:
    observed, low, high = (100 * rate[key] for key in ("observed", "low", "high"))
    by = null_label(line["false_positives_null"]).text
    return (
        f"{test_label(line['test'])} at {nu_label(line['nu']).text}: {observed:.1f} % false positives at 2σ, "
        f"calibrated by {by} ({low:.1f} to {high:.1f} %; 2.3 % expected); an inflation by "
        f"{rate['detectable_ratio']:.2g} or more would have been seen."
    )


def _reach(evidence: Evidence, main: Configuration) -> Iterator[str]:
    space = evidence.line("spaces", embedding=main.embedding, order=main.order)
    for reach in [] if space is None else space["reach"]:
        yield (
            f"Closure reach of the convex test at {nu_label(reach['nu']).text}: {shown(reach_text(reach))} "
            f"(the toys here have {main.expected:g})."
        )
