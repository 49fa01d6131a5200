"""Part of the stage `events`: what the events of separate samples count in the place of their process."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from covad.errors import StudyError
from covad.events.files import FileSet
from covad.events.processes import BACKGROUND
from covad.events.selection import Selection
from covad.events.systematics.variation import of_processes
from covad.runs.collisions import CollisionData
from covad.runs.separate import SeparateYield, SeparateYields
from covad.storage.records import write_record
from covad.study.systematics import SamplesEntry

log = logging.getLogger(__name__)


@dataclass
class _Sums:
    """What is added up of the events of one process."""

    events: int = 0
    selected: int = 0
    total: float = 0.0


def tabulate_separate(data: CollisionData) -> None:
    """Count the separate samples once, and tell how they are normalised."""
    if not data.source.separate_samples:
        return
    product = data.products.separate()
    if product.make_room():
        table = count_separate(data)
        write_record(product.path, table)
        product.note()
        for line in table.samples:
            how = "has the cross section" if line.by_cross_section else "is given the yield"
            log.info(
                "sample '%s': %d events, of which %d pass the cuts; it %s of %s, and %.4f of its yield",
                line.sample,
                line.events,
                line.selected,
                how,
                line.process,
                line.yield_ratio,
            )


def count_separate(data: CollisionData) -> SeparateYields:
    """Read all separate samples and the background once, and say what an event of each sample counts."""
    entries = [entry for entry in data.source.systematics if isinstance(entry, SamplesEntry)]
    nominal = {entry.process: _Sums() for entry in entries}
    with data.open(BACKGROUND) as files:
        _add(nominal, files, data.selection)
    lines = []
    for entry in entries:
        for name in entry.samples:
            with data.open_files(name) as files:
                found = _Sums()
                _add({entry.process: found}, files, data.selection)
                generated = sum(file.sum_of_weights.get(entry.process, 0.0) for file, _ in files.parts)
            expected = nominal[entry.process]
            for what, sums in ((f"the sample '{name}'", found), ("source.background", expected)):
                if sums.total <= 0.0:
                    raise StudyError(
                        f"source.systematics: '{entry.name}': {sums.selected} events of '{entry.process}' in "
                        f"{what} pass the cuts, and their weights add up to {sums.total:g}, which is no "
                        "expectation: give it more events"
                    )
            scale, cross_section = expected.total / found.total, _cross_section(data, entry.process)
            luminosity = data.source.luminosity
            by_cross_section = bool(cross_section and luminosity and generated > 0.0)
            if cross_section and luminosity and by_cross_section:
                scale = luminosity * cross_section / generated
            lines.append(
                SeparateYield(
                    sample=name,
                    process=entry.process,
                    events=found.events,
                    selected=found.selected,
                    total=found.total,
                    nominal=expected.total,
                    scale=scale,
                    by_cross_section=by_cross_section,
                )
            )
    return SeparateYields(tuple(lines))


def _cross_section(data: CollisionData, process: str) -> float | None:
    """Return the cross section of all that is trained as a process; None if a part of it has none."""
    entries = data.source.background.processes.items()
    parts = [entry.cross_section for name, entry in entries if (entry.label or name) == process]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _add(sums: dict[str, _Sums], files: FileSet, selection: Selection) -> None:
    """Add up the events of some processes in one pass."""
    for events in files.chunks():
        passing = selection.triggers(events)
        for process, found in sums.items():
            mine = of_processes(events, [process])
            found.events += int(mine.sum())
            found.selected += int((mine & passing).sum())
            found.total += float(events.event_weights[mine & passing].sum())
