"""The summary in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: What `closes` says: None where the toys are too few to tell.
_VERDICTS = {True: "closes", False: "does not close", None: "too few toys to tell"}


def headlines(summary: Mapping[str, Any]) -> list[str]:
    """Does it close, how far, how sensitive is it, and are all toys there?"""
    return [*_closure(summary), *_reach(summary), *_sensitivity(summary), _toys(summary)]


def _closure(summary: Mapping[str, Any]) -> Iterator[str]:
    for name, closes in summary["headline"]["closes"].items():
        shifts = [
            line["median_shift"]["shift"]
            for line in summary["closure"]
            if f"{line['test']}, {line['configuration']}" == name
        ]
        worst = max(shifts, key=abs)
        yield f"{name}: {_VERDICTS[closes]}, the median of t moves by up to {worst:+.2f} standard deviations"


def _reach(summary: Mapping[str, Any]) -> Iterator[str]:
    for space in summary["spaces"]:
        if space["reach"]:
            name = f"{space['embedding']}, {'linear' if space['order'] == 1 else 'quadratic'}"
            yield f"closure reach of {name} for the convex test: {_smallest_reach(space['reach'])}"


def _smallest_reach(lines: Sequence[Mapping[str, Any]]) -> str:
    """The smallest estimate with its interval, and what holds at every nu where that is less or all."""
    everywhere = min(float(line["interval"]["low"]) for line in lines)
    known = [line for line in lines if line["n_events"] is not None]
    smallest = min(known, key=lambda line: float(line["n_events"]), default=None)
    if smallest is None or smallest["interval"]["high"] is None:
        return _at_least(everywhere)
    at = ", ".join(f"{x:+g}" if x else "0" for x in smallest["nu"])
    others = f"; {_at_least(everywhere)} at every nu" if everywhere < smallest["interval"]["low"] else ""
    return f"{reach_text(smallest)} at nu = {at}{others}"


def reach_text(line: Mapping[str, Any]) -> str:
    """Events with their 68 % interval; its lower end alone where the estimate or the upper end is open."""
    n, low, high = line["n_events"], line["interval"]["low"], line["interval"]["high"]
    if n is None or high is None:
        return _at_least(low)
    return f"{_rounded(n)} events (68 % interval: {_rounded(low)} to {_rounded(high)})"


def _at_least(n: float) -> str:
    return f">= {_rounded(n)} events"


def _rounded(n: float) -> str:
    """Three digits, thousands apart."""
    return f"{float(f'{n:.3g}'):,.0f}".replace(",", " ")


def _sensitivity(summary: Mapping[str, Any]) -> Iterator[str]:
    """At nu = 0, against R_0."""
    for line in summary["significance"]:
        if line["null"] == "R_0" and not any(line["nu"]):
            what = f"{line['injected']:g} events of {line['signal']}"
            yield f"{line['test']}, {line['configuration']}: {what} give a median Z of {line['text']}"


def _toys(summary: Mapping[str, Any]) -> str:
    counts = summary["toys"]
    return "toys: {requested} requested = {done} done + {failed} failed + {missing} missing".format(**counts)
