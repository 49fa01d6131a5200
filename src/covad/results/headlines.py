"""The summary in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


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
        verdict = "closes" if closes else "does not close"
        yield f"{name}: {verdict}, the median of t moves by up to {worst:+.2f} standard deviations"


def _reach(summary: Mapping[str, Any]) -> Iterator[str]:
    for space in summary["spaces"]:
        events = [line["n_events"] for line in space["reach"] if line["n_events"] is not None]
        said = f"{min(events):.3g} events" if events else "beyond a billion events"
        yield f"closure reach of {space['name'].replace('_', ', ')}: {said}"


def _sensitivity(summary: Mapping[str, Any]) -> Iterator[str]:
    """At nu = 0, against R_0."""
    for line in summary["significance"]:
        if line["null"] == "R_0" and not any(line["nu"]):
            what = f"{line['injected']:g} events of {line['signal']}"
            yield f"{line['test']}, {line['configuration']}: {what} give a median Z of {line['text']}"


def _toys(summary: Mapping[str, Any]) -> str:
    counts = summary["toys"]
    return "toys: {requested} requested = {done} done + {failed} failed + {missing} missing".format(**counts)
