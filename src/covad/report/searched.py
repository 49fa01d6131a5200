"""What was searched: data, background, cuts, systematics, signals and sizes, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from covad.events.systematics import BUILT_IN
from covad.report.evidence import Evidence
from covad.report.names import number, ordered, process_label, share, signal_label, test_label
from covad.results.summary import Summary
from covad.study import Collisions
from covad.study.samples import SampleEntry
from covad.study.systematics import SystematicEntry

#: Engines of the simulation as people call them.
_ENGINES = {"parametric": "the embedded generator", "pythia8": "Pythia 8"}


def searched(evidence: Evidence) -> list[tuple[str, str]]:
    """Return what a reader has to know first, as terms with their texts."""
    summary = evidence.summary
    return [
        ("Data", _data(evidence)),
        *_samples(summary),
        ("Systematics", _systematics(summary)),
        ("Signals", _signals(summary)),
        *_sizes(summary),
        *_made(summary),
    ]


def _data(evidence: Evidence) -> str:
    files = list(dict.fromkeys(observation.file for observation in evidence.observed))
    if not files:
        return "no observed file was tested yet; toys (pseudo-experiments) stand for data"
    return ", ".join(files)


def _samples(summary: Summary) -> Iterator[tuple[str, str]]:
    """Tell where the background comes from, its processes and its cuts."""
    source = summary.study.source
    if not isinstance(source, Collisions):
        made_up = {"latent": "an analytic latent world", "pools": "pools of embedded events"}
        yield "Background", made_up[source.kind]
        return
    yield "Background", _sample(source.background)
    if summary.processes:
        yields = (f"{process_label(line.process)} {number(line.expected)}" for line in summary.processes)
        yield "Processes", f"{', '.join(yields)} expected events"
    else:
        yield "Processes", "not counted yet (covad run counts them)"
    cuts = source.cuts
    told = [f"every {name} ≥ {cut:g} GeV" for name, cut in cuts.object_minimum.items()]
    if cuts.trigger:
        told.append(f"at least one {' or '.join(cuts.trigger)} ≥ {cuts.trigger_minimum:g} GeV")
    yield "Cuts", "; ".join(told) or "none"


def _sample(entry: SampleEntry) -> str:
    if entry.simulate is not None:
        return f"{number(entry.simulate)} events simulated by {_ENGINES[entry.engine]}"
    names = [path.name for path in entry.files]
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more files"


def _systematics(summary: Summary) -> str:
    study = summary.study
    if isinstance(study.source, Collisions):
        entries = study.source.systematics
        told = [_nuisance([e for e in entries if e.name == name]) for name in study.source.nuisances]
    else:
        told = [f"{len(study.nu[0])} made-up nuisance{'s' if len(study.nu[0]) > 1 else ''}"]
    if study.normalisation is not None:
        told.append(f"normalisation (σ = {100 * study.normalisation:.3g} %)")
    return ", ".join(told)


def _nuisance(entries: Sequence[SystematicEntry]) -> str:
    """Name a nuisance with its size, or with what its entries are."""
    return f"{entries[0].name.replace('_', ' ')} ({'; '.join(dict.fromkeys(map(_systematic, entries)))})"


def _systematic(entry: SystematicEntry) -> str:
    only = f", {' and '.join(entry.processes)} only" if entry.processes else ""
    match entry.kind:
        case "shift":
            kind = BUILT_IN.get(entry.built_in or entry.name)
            defaults: dict[str, Any] = (
                {} if kind is None else {option.name: option.default for option in fields(kind)}
            )
            told = f"σ = {entry.sigma or float(defaults.get('sigma', 1.0)):g}"
        case "varied":
            told = "varied objects"
        case "weights":
            told = "weights"
        case "samples":
            told = "separate samples" if entry.down is not None else "a separate sample"
        case "normalisation":
            told = f"yield, {100 * entry.uncertainty:.3g} %"
    return told + only


def _signals(summary: Summary) -> str:
    """Name every signal with the events that toys inject, and their share of the background."""
    main = summary.main
    told: dict[str, list[str]] = {}
    for signal, injected in ordered(summary.injections(main.configuration)):
        told.setdefault(signal, []).append(f"{number(injected)} events ({share(injected, main.expected)})")
    return (
        "; ".join(f"{signal_label(name).text}: {', '.join(found)}" for name, found in told.items()) or "none"
    )


def _sizes(summary: Summary) -> Iterator[tuple[str, str]]:
    main, rule = summary.main, summary.study.rule
    toys = f"{number(summary.study.toys)} toys per ensemble, {number(summary.toys.requested)} in all"
    reference = f"{number(main.reference)} reference events"
    yield "Sizes", f"{number(main.expected)} expected events, {reference}; {toys}"
    others = [
        test_label(test) for test in summary.tests_of(main.configuration) if rule not in (test, "joint")
    ]
    beside = f"; beside it: {', '.join(others)}" if others else ""
    name = f"{test_label(rule)}, the smaller p of them" if rule == "joint" else test_label(rule)
    yield "Test", f"{name}, {main.label} (main configuration){beside}"


def _made(summary: Summary) -> Iterator[tuple[str, str]]:
    """Tell when the run was made, and with which versions."""
    manifest = summary.manifest
    dates = sorted(
        line.since for lines in ({} if manifest is None else manifest.stages).values() for line in lines
    )
    if dates:
        first, last = (date.split(":")[0].rsplit(" ", 1)[0] for date in (dates[0], dates[-1]))
        yield "Date", first if first == last else f"{first} to {last}"
    made = [
        f"covad {line.versions.covad}, numpy {line.versions.numpy}, torch {line.versions.torch}"
        for line in summary.toy_versions
    ]
    toys = f"toys made with {' or '.join(dict.fromkeys(made))}; " if made else ""
    yield "Versions", f"{toys}reported with covad {summary.covad}"
