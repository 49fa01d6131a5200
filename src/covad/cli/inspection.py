"""`covad inspect`: what an event file holds, as tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from covad.cli.console import PLAIN_WIDTH, SafeConsole, table, with_progress
from covad.errors import StudyError
from covad.events.files import EventSource, open_events
from covad.events.inspection import (
    CollectionSummary,
    SampleSummary,
    VariedSummary,
    summarise,
)
from covad.events.selection import NO_CUTS, Selection
from covad.events.systematics import Nuisance, Systematic, make_systematic
from covad.events.weights import WeightTotals


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
    systematics: Sequence[Systematic]
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
        systematics, selection = data.acting, data.selection
    with open_events(path, labels, foreign=True) as source:
        names = [c.name for c in source.layout.collections]
        shown = collection or ("jet" if "jet" in names else names[0])
        if study_file is None:
            systematics = systematics if collection or shown == "jet" else ()
        systematics = [each for each in systematics if _shown(each, source)]
        chunks = source.chunks(variations=source.variation_names)
        summary = summarise(
            with_progress(chunks, len(source), "reading"), systematics, shown, selection=selection or NO_CUTS
        )
        varied = []
        for name in source.varied_names:
            features = source.layout.collection(shown).features
            varied.append(VariedSummary(name, CollectionSummary(shown, features)))
            for chunk in with_progress(source.chunks(varied=name), len(source), f"reading {name}"):
                varied[-1].add(chunk, systematics, selection or NO_CUTS)
        console = SafeConsole(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
        _print_sample(console, source, selection, summary, varied)


def _shown(systematic: Systematic, source: EventSource) -> bool:
    """Return whether the file has what a systematic needs; varied objects are shown as they are."""
    if not isinstance(systematic, Nuisance):
        return True
    return all(group == "weights" and name in source.variation_names for group, name, _ in systematic.columns)


def _print_sample(
    console: SafeConsole,
    source: EventSource,
    selection: Selection | None,
    summary: SampleSummary,
    varied: Sequence[VariedSummary],
) -> None:
    """Print counts, ranges and shifts; efficiency and yield ratios only where there are cuts."""
    console.print(f"{source.path}: {summary.n_events} events")
    for key, value in source.provenance.items():
        if key in ("detector", "mapping"):  # settings by the dozen, which would hide the rest
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
        if summary.weights:
            efficiency = _ratio(summary.selected_yield, summary.all_weights.total)
            console.print(f"  sum of their weights {summary.selected_yield:.6g}, efficiency {efficiency}")

    _print_processes(console, source, summary)
    if summary.variations:
        variations = table("Other weights of these events", "name", "sum of weights", "relative")
        for name, total in summary.variations.items():
            variations.add_row(name, f"{total:.6g}", _ratio(total, summary.all_weights.total))
        console.print(variations)

    once = ", every event counted once" if summary.weights else ""
    objects = table(f"Objects{once}", "collection", "per event", "in events", "mean lead", "ranges")
    for c in summary.collections:
        ranges = ", ".join(f"{f} {c.low[f]:.4g} to {c.high[f]:.4g}" for f in c.features if f in c.low)
        filled = f"{c.n_filled / c.n_events:.2%}"
        objects.add_row(c.name, f"{c.mean_number:.3f}", filled, f"{c.mean_lead:.2f}", ranges)
    console.print(objects)

    if summary.shifts and all(shift.n_nominal > 0 for shift in summary.shifts):
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
        why = "no event passes the selection at nu = 0"
        if summary.n_selected:
            why = f"the weights of the selected events add up to {summary.selected_yield:.4g} at nu = 0"
        console.print(f"no shifts are shown, because {why}")
    if varied:
        _print_varied(console, selection, summary, varied)
    console.print(
        f"events whose objects had to be sorted, or whose empty slots were not empty: {source.untidied}"
    )


def _print_processes(console: SafeConsole, source: EventSource, summary: SampleSummary) -> None:
    """Print the events of every process, and what their weights say where they have some."""
    columns = ["process", "events", "share"]
    if summary.weights:
        columns += ["sum of weights", "negative", "effective events"]
    if source.sum_of_weights:
        columns += ["sum of generator weights"]
    processes = table("Processes", *columns)
    counts = dict.fromkeys(source.sum_of_weights, 0) | summary.processes
    for name, count in counts.items():
        row = [name, str(count), f"{count / max(summary.n_events, 1):.2%}"]
        if summary.weights:
            row += _weight_cells(summary.weights.get(name, WeightTotals()))
        if name in source.sum_of_weights:
            row.append(f"{source.sum_of_weights[name]:.6g}")
        processes.add_row(*row)
    if len(summary.weights) > 1:
        processes.add_row("all", str(summary.n_events), "", *_weight_cells(summary.all_weights))
    console.print(processes)


def _weight_cells(weights: WeightTotals) -> list[str]:
    return [f"{weights.total:.6g}", f"{weights.negative_share:.2%}", f"{weights.effective:.1f}"]


def _print_varied(
    console: SafeConsole, selection: Selection | None, summary: SampleSummary, varied: Sequence[VariedSummary]
) -> None:
    """Print what the varied objects of the events look like; yield ratios only where there are cuts."""
    name = varied[0].collection.name
    numbers = [f"{name}s per event", f"mean {name} pt", f"mean lead {name} pt"]
    if selection is not None:
        numbers.append("yield ratio")
    rows = table("Varied objects of these events", "name", *numbers)
    for entry in varied:
        c = entry.collection
        means = [f"{c.mean_number:.4f}", f"{c.mean_scale:.2f}", f"{c.mean_lead:.2f}"]
        if selection is not None:
            means.append(_ratio(entry.selected_yield, summary.selected_yield))
        rows.add_row(entry.name, *means)
    console.print(rows)


def _ratio(value: float, nominal: float) -> str:
    return f"{value / nominal:.4f}" if nominal else "-"
