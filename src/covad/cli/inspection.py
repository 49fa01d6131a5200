"""`covad inspect`: what an event file holds, as tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from covad.cli.console import PLAIN_WIDTH, SafeConsole, table, with_progress
from covad.errors import StudyError
from covad.events.files import EventSource, open_events
from covad.events.inspection import SampleSummary, summarise
from covad.events.selection import NO_CUTS, Selection
from covad.events.systematics import Systematic, make_systematic


def inspect_file(
    path: Path,
    labels: Path | None = None,
    systematic: str | None = None,
    collection: str | None = None,
    study_file: Path | None = None,
) -> None:
    """Read a file to its end and print what is in it, with the cuts and the systematics of a study.

    Without a study nothing is cut, and one built-in systematic is shown.
    """
    selection: Selection | None = None
    systematics: tuple[Systematic, ...]
    if study_file is None:
        systematics = (make_systematic({"name": systematic or "jet_energy_scale"}),)
    else:
        # these take a second to import, which a look at a file does not need
        from covad.runs.collisions import CollisionData
        from covad.runs.directory import RunDirectory
        from covad.study import Collisions, read_study

        study = read_study(study_file)
        if not isinstance(study.source, Collisions):
            raise StudyError(
                f"{study_file}: source.kind: a study of events was expected, not {study.source.kind}: "
                "name one whose source.kind is events, or leave --study out"
            )
        data = CollisionData.of(study, RunDirectory(study_file.parent))
        systematics, selection = data.systematics, data.selection
    with open_events(path, labels, foreign=True) as source:
        names = [c.name for c in source.layout.collections]
        shown = collection or ("jet" if "jet" in names else names[0])
        if study_file is None:
            systematics = systematics if collection or shown == "jet" else ()
        chunks = with_progress(source.chunks(), len(source), "reading")
        summary = summarise(chunks, systematics, shown, selection=selection or NO_CUTS)
        _print_sample(source, selection, summary)


def _print_sample(source: EventSource, selection: Selection | None, summary: SampleSummary) -> None:
    """Print counts, ranges and shifts; efficiency and yield ratios only where there are cuts."""
    console = SafeConsole(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print(f"{source.path}: {summary.n_events} events")
    for key, value in source.provenance.items():
        if key == "detector":  # settings by the dozen, which would hide the rest
            continue
        told = value
        if isinstance(value, Mapping):
            told = ", ".join(f"{name} {entry}" for name, entry in value.items())
        elif key == "events" and "injected" in source.provenance:
            told = f"{value}, without the injected ones"
        console.print(f"  {key}: {told}")
    if selection is not None:
        share = summary.n_selected / max(summary.n_events, 1)
        console.print(f"after the cuts: {summary.n_selected} events, efficiency {share:.4f} ({selection})")

    processes = table("Processes", "process", "events", "share")
    for name, count in summary.processes.items():
        processes.add_row(name, str(count), f"{count / summary.n_events:.2%}")
    console.print(processes)

    objects = table("Objects", "collection", "per event", "in events", "mean lead", "ranges")
    for c in summary.collections:
        ranges = ", ".join(f"{f} {c.low[f]:.4g} to {c.high[f]:.4g}" for f in c.features if f in c.low)
        filled = f"{c.n_filled / c.n_events:.2%}"
        objects.add_row(c.name, f"{c.mean_number:.3f}", filled, f"{c.mean_lead:.2f}", ranges)
    console.print(objects)

    if any(shift.n_nominal for shift in summary.shifts):
        name = summary.shifts[0].collection.name
        numbers = [f"{name}s per event", f"mean {name} pt", f"mean lead {name} pt"]
        if selection is not None:
            numbers.append("yield ratio")
        done = "Shifted, nothing cut" if selection is None else "Shifted, then selected"
        shifts = table(f"{done} (nu in units of sigma)", "systematic", "nu", *numbers)
        for shift in summary.shifts:
            c = shift.collection
            means = [f"{c.mean_number:.4f}", f"{c.mean_scale:.2f}", f"{c.mean_lead:.2f}"]
            if selection is not None:
                means.append(f"{shift.yield_ratio:.4f}")
            shifts.add_row(shift.systematic.name, f"{shift.nu:+g}", *means)
        console.print(shifts)
    elif summary.shifts:
        console.print("no shifts are shown, because no event passes the selection at nu = 0")
    console.print(
        f"events whose objects had to be sorted, or whose empty slots were not empty: {source.untidied}"
    )
