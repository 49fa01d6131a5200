"""The top of the page: does it close, how sensitive is it, how sure are we?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy.stats import norm

from covad.report.evidence import Configuration, Evidence, Line
from covad.report.names import nu_label, share, signal_label, test_label
from covad.report.paper import read_paper
from covad.report.paper_tables import LAWS, ordered
from covad.report.table import shown


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
    """The paper's proposal if it is there, else the last profiled configuration, else the last one."""
    proposal = evidence.playing({"embedding": "covariant", "treatment": "profiled", "order": 1})
    profiled = [c for c in evidence.configurations if c.treatment == "profiled"]
    return proposal or (profiled or list(evidence.configurations))[-1]


def _closes(evidence: Evidence, main: Configuration) -> Answer:
    question = "Does it close?"
    verdicts = [
        (test, configuration, lines)
        for configuration in evidence.configurations
        for test in evidence.tests
        if (lines := evidence.lines("closure", test=test, configuration=configuration.name))
    ]
    mine = [line["closes"] for _, configuration, lines in verdicts if configuration == main for line in lines]
    if not mine:
        missing = "Not known: there are no background-only toys at shifted ν yet."
        return Answer(question, "not known yet", None, (missing,))
    points = tuple(_closure_point(*verdict) for verdict in verdicts)
    verdict = f"{'Yes' if all(mine) else 'No'}, in the main configuration ({main.short})"
    return Answer(question, verdict, all(mine), points)


def _closure_point(test: str, configuration: Configuration, lines: Sequence[Line]) -> str:
    closes = "closes" if all(line["closes"] for line in lines) else "does not close"
    worst = max(lines, key=lambda line: abs(line["median_shift"]["shift"]))
    shift = worst["median_shift"]
    low, high = shift["interval95"]["low"], shift["interval95"]["high"]
    smallest = min((found["corrected_p"] for line in lines for found in line["against_null"]), default=None)
    p = "" if smallest is None else f"smallest corrected p {smallest:.2g}; "
    return shown_signs(
        f"{test_label(test)}, {configuration.short}: {closes} ({p}median of t moves by "
        f"{shift['shift']:+.2f} standard deviations at {nu_label(worst['nu']).text}, "
        f"95 % interval {low:+.2f} to {high:+.2f})."
    )


def shown_signs(text: str) -> str:
    """Minus signs before digits."""
    return text.replace(" -0", " −0").replace(" -1", " −1").replace(" -2", " −2").replace(" -3", " −3")


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
    best = max(lines, key=lambda line: line["z"])
    what = f"{signal_label(best['signal']).text}, {share(best['injected'], main.expected)}"
    verdict = f"Up to Z {_relation(best)}{best['z']:.2f} ({what}) in the main configuration"
    return Answer(question, verdict, None, (*points, *spreads))


def _relation(line: Line) -> str:
    return "≥ " if line["saturated"] and line["z"] > 0 else ""


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
    """The largest change of a significance over nu, of those that are no bounds."""
    largest: dict[str, float] = {}
    for test in evidence.tests:
        key = {"test": test, "configuration": configuration.name, "null": "R_0"}
        for signal, injected in evidence.injections(configuration):
            z = [
                line["z"]
                for line in evidence.lines("significance", **key, signal=signal, injected=injected)
                if not line["saturated"]
            ]
            if len(z) > 1:
                largest[test] = max(largest.get(test, 0.0), max(z) - min(z))
    if not largest:
        return None
    found = ", ".join(f"{test_label(test)} {spread:.2f}" for test, spread in largest.items())
    paper = read_paper()
    same_sizes = paper.comparable(configuration.expected, configuration.reference)
    compared = same_sizes and configuration.treatment == "profiled" and configuration.order == 1
    known = paper.spread_of_z.get(configuration.kind or "") if compared else None
    beside = "" if known is None else f" (paper: {known:g}, calibrated by R₊₁)"
    return f"Largest spread of Z over ν against R₀, {configuration.short}: {found}{beside}."


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
        rates = [r for r in line["false_positives"] if r["sigma"] == 2.0 and r["detectable_ratio"]]
        for rate in rates:
            yield (
                f"{test_label(line['test'])} at {nu_label(line['nu']).text}: {100 * rate['observed']:.1f} % "
                f"false positives at 2σ ({100 * rate['low']:.1f} to {100 * rate['high']:.1f} %; 2.3 % "
                f"expected); an inflation by {rate['detectable_ratio']:.2g} or more would have been seen."
            )


def _reach(evidence: Evidence, main: Configuration) -> Iterator[str]:
    space = evidence.line("spaces", embedding=main.embedding, order=main.order)
    for reach in [] if space is None else space["reach"]:
        n, low = reach["n_events"], reach["interval"]["low"]
        found = f"{n:,.0f}" if n is not None else f"more than {low:,.0f}" if low else "unlimited"
        yield (
            f"The response is good for {found.replace(',', ' ')} events at {nu_label(reach['nu']).text} "
            f"(the toys here have {main.expected:g})."
        )
