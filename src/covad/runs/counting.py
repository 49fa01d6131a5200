"""One pass over the background files: what is expected of every process of them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from covad.errors import StudyError
from covad.events.files import FileSet
from covad.events.layout import UNLABELLED
from covad.events.selection import Selection
from covad.events.weights import WeightTotals
from covad.runs.yields import ProcessYield, YieldTable
from covad.study import Collisions, ProcessEntry

#: Where the study says what is expected.
KEY = "source.background.processes"


def count_yields(source: Collisions, files: FileSet, selection: Selection) -> YieldTable:
    """Read all background events once, and say what is expected of their processes.

    `files` have the weights of the files themselves. Raise StudyError if that cannot be said.
    """
    entries = source.background.processes
    offered: Counter[str] = Counter()
    sums: dict[str, WeightTotals] = defaultdict(WeightTotals)
    #: By process the sums of generator weights in the files, and the files with events of it but without one.
    generated: dict[str, float] = {}
    silent: dict[str, Path] = {}
    for file, rows in files.parts:
        seen = set()
        for events in files.pieces(rows):
            if (events.process == UNLABELLED).any():
                raise StudyError(
                    f"{file.path}: has events without a process label, whose yield nobody knows: label them, "
                    "or leave them out"
                )
            weights, passing = events.event_weights, selection.triggers(events)
            for code in np.unique(events.process):
                mine = events.process == code
                name = events.process_names[code]
                offered[name] += int(mine.sum())
                sums[name] += WeightTotals.of(weights[mine & passing])
                seen.add(name)
        for name, number in file.sum_of_weights.items():
            generated[name] = generated.get(name, 0.0) + number
        silent |= dict.fromkeys(seen - set(file.sum_of_weights), file.path)
    _refuse_missing(entries, sums)
    lines = []
    for name, found in sums.items():
        _refuse_useless(name, offered[name], found)
        entry = entries.get(name)
        made = None if name in silent else generated.get(name)
        if entry is not None and entry.cross_section is not None:
            made = _generated(name, entry, made, silent)
        lines.append(_line(name, offered[name], found, entry, made, source.luminosity))
    ordered = sorted(lines, key=lambda line: line.expected, reverse=True)
    return YieldTable(tuple(ordered), bool(entries))


def _refuse_missing(entries: Mapping[str, ProcessEntry], found: Mapping[str, WeightTotals]) -> None:
    if absent := sorted(set(entries) - set(found)):
        raise StudyError(
            f"{KEY}.{absent[0]}: no background file has events of it, they have "
            f"{', '.join(sorted(found)) or 'none'}: leave it out, or mend the name"
        )


def _refuse_useless(name: str, n_events: int, found: WeightTotals) -> None:
    """Raise StudyError if a process has no positive expectation."""
    if not found.n_events:
        raise StudyError(
            f"the process '{name}': none of its {n_events} events passes source.cuts: loosen them, or "
            "leave its events out"
        )
    if found.total <= 0:
        raise StudyError(
            f"the process '{name}': the weights of its {found.n_events} selected events add up to "
            f"{found.total:g}, which is no expectation: simulate more events, or leave it out"
        )


def _generated(name: str, entry: ProcessEntry, in_files: float | None, silent: Mapping[str, Path]) -> float:
    """Return the sum of generator weights that a cross section is divided by."""
    made = entry.sum_of_weights or in_files
    if made is None:
        where = f"{silent[name]} has none" if name in silent else "no file has one"
        raise StudyError(
            f"{KEY}.{name}: its cross_section needs the sum of generator weights, and {where}: give "
            "sum_of_weights, or the yield"
        )
    if made <= 0:
        raise StudyError(
            f"{KEY}.{name}: the sums of generator weights in the files add up to {made:g}: give "
            "sum_of_weights, or the yield"
        )
    return made


def _line(
    name: str,
    n_events: int,
    found: WeightTotals,
    entry: ProcessEntry | None,
    generated: float | None,
    luminosity: float | None,
) -> ProcessYield:
    scale = 1.0
    if entry is not None and entry.expected is not None:
        scale = entry.expected / found.total
    elif entry is not None and entry.cross_section is not None and generated and luminosity:
        scale = luminosity * entry.cross_section / generated
    return ProcessYield(
        process=name,
        label=(entry and entry.label) or name,
        events=n_events,
        selected=found.n_events,
        effective=found.effective,
        negative_share=found.negative_share,
        total=found.total,
        generated=generated,
        scale=scale,
        expected=found.total * scale,
        error=math.sqrt(found.squares) * scale,
    )
