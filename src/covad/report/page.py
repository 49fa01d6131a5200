"""report.html: figures, tables and notes on what is not there, in one file that needs no network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from covad.report.evidence import Evidence
from covad.report.figures import latent as latent_figures
from covad.report.figures import response as response_figures
from covad.report.figures import statistic as statistic_figures
from covad.report.figures import study as study_figures
from covad.report.figures.canvas import Figure
from covad.report.figures.excess import excess_figures
from covad.report.headline import answers, main_configuration
from covad.report.paper.numbers import Paper, read_paper
from covad.report.paper.tables import absent, other_tables, paper_table
from covad.report.tables import own as own_tables
from covad.report.tables import spaces as space_tables
from covad.report.tables.observed import nuisance_table, observed_table
from covad.report.tables.table import Table, shown
from covad.report.texts import glossary


@dataclass
class Chapter:
    """A chapter of the page. `missing` says what the study or its run does not have."""

    name: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def figure(self, figure: Figure | None, otherwise: str) -> None:
        if figure is None:
            self.missing.append(otherwise)
        else:
            self.figures.append(figure)

    def table(self, table: Table | None, otherwise: str) -> None:
        if table is None:
            self.missing.append(otherwise)
        else:
            self.tables.append(table)


def sections(evidence: Evidence) -> list[Chapter]:
    """The whole report in reading order."""
    found = [
        _verdicts(evidence),
        _latent(evidence),
        _response(evidence),
        _null(evidence),
        _closure(evidence),
        _sensitivity(evidence),
        _power(evidence),
        _quadratic(evidence),
        _observed(evidence),
        _toys(evidence),
    ]
    return [section for section in found if section.figures or section.tables or section.missing]


def _verdicts(evidence: Evidence) -> Chapter:
    section = Chapter("verdicts", "Verdicts")
    section.table(own_tables.verdict_table(evidence), "Closure: no background-only toys at shifted ν yet.")
    section.table(own_tables.calibration_table(evidence), "Significances: no toys with signals.")
    return section


def _latent(evidence: Evidence) -> Chapter:
    section = Chapter("latent", "The latent space")
    spaces = evidence.lines("spaces")
    if not spaces:
        section.missing.append(
            "Marginals and distortions of the latent space: this run has no encoder with a checked response."
        )
        return section
    contrastive = {c.embedding for c in evidence.configurations if c.kind == "contrastive"}
    space = next((s for s in spaces if s["embedding"] in contrastive), spaces[0])
    signals = list(evidence.study["signals"])
    signal = "a4l" if "a4l" in signals else next(iter(signals), None)
    distortions = latent_figures.distortions(evidence, space["name"], signal)
    section.figure(distortions, "Distortions beside a signal: the checks of the response are not there.")
    section.figures += latent_figures.marginal_figures(evidence)
    section.figure(study_figures.training_figure(evidence), "Training: its losses are not there.")
    section.table(space_tables.embedding_table(evidence), "Separation and linearity: not there.")
    return section


def _response(evidence: Evidence) -> Chapter:
    section = Chapter("response", "The response to the nuisances")
    if not evidence.lines("spaces"):
        section.missing.append("Validation and closure reach: no response was checked in this run.")
        return section
    section.figure(
        response_figures.log_ratio_bins(evidence), "Log ratios per bin: there is no linear response."
    )
    section.figures += response_figures.validation_figures(evidence)
    section.table(space_tables.reach_table(evidence), "Closure reach: not there.")
    section.table(space_tables.validation_table(evidence), "Validation: not there.")
    folds = space_tables.fold_table(evidence)
    section.tables += [] if folds is None else [folds]
    return section


def _null(evidence: Evidence) -> Chapter:
    section = Chapter("null", "The null and its law")
    if "network" in evidence.tests:
        clips = own_tables.clip_table(evidence, read_paper())
        section.table(clips, "The clip W of the network: not chosen yet.")
        section.figure(
            study_figures.clip_scan(evidence), "Search for W: W was given by the study or is not there."
        )
    for test in evidence.tests:
        figure = statistic_figures.null_figure(evidence, test)
        section.figure(figure, f"Null of the {test} test: its toys or its law are not there.")
    _add(section, evidence, {"tab:validation_x2"})
    return section


def _closure(evidence: Evidence) -> Chapter:
    section = Chapter("closure", "Closure")
    for test in evidence.tests:
        figure = statistic_figures.closure_figure(evidence, test)
        section.figure(figure, f"Closure of the {test} test: no background-only toys at shifted ν.")
    section.table(own_tables.shift_table(evidence), "False positives: no background toys at shifted ν.")
    _add(section, evidence, {"tab:validation_A", "tab:validation_unlinearized"})
    section.tables += [table for table in other_tables(evidence) if table.quantity == "p-value"]
    return section


def _sensitivity(evidence: Evidence) -> Chapter:
    section = Chapter("sensitivity", "Sensitivity to signals")
    if not evidence.lines("significance"):
        section.missing.append(
            "Significances: the study injects no signals, or their toys are not there yet."
        )
        return section
    section.figures += statistic_figures.signal_figures(evidence)
    _add(section, evidence, _SENSITIVITY)
    section.tables += [table for table in other_tables(evidence) if table.quantity == "median Z"]
    return section


_SENSITIVITY = {
    "tab:validation_C",
    "unlinearized_with_nuisance",
    "tab:validation_B",
    "tab:validation_D",
    "tab:validation_E",
    "tab:embedding_linearization_no_nuisance",
}


def _power(evidence: Evidence) -> Chapter:
    section = Chapter("power", "Power")
    section.figures += study_figures.power_figures(evidence)
    if not section.figures:
        section.missing.append("Power curves: there are no toys with signals in a profiled configuration.")
    return section


def _quadratic(evidence: Evidence) -> Chapter:
    section = Chapter("quadratic", "A quadratic response")
    _add(section, evidence, {"tab:validation_quadratic", "tab:validation_quadratic_sig"})
    return section


def _observed(evidence: Evidence) -> Chapter:
    section = Chapter("observed", "Observed files")
    section.figures += excess_figures(evidence.observed)
    section.table(observed_table(evidence.observed), "Observed files: none was tested (covad test RUN FILE).")
    nuisances = nuisance_table(evidence.observed)
    section.tables += [] if nuisances is None else [nuisances]
    return section


def _toys(evidence: Evidence) -> Chapter:
    return Chapter("toys", "Toys", tables=[own_tables.toys_table(evidence)])


def _add(section: Chapter, evidence: Evidence, labels: set[str]) -> None:
    """The paper's tables with these labels, or why they are not there."""
    paper = read_paper()
    for spec in paper.tables:
        if spec.label in labels:
            section.table(paper_table(evidence, spec), absent(spec, paper, evidence))


def samples_differ(evidence: Evidence, paper: Paper) -> str:
    """The plain sentence about what may be compared."""
    source = evidence.study["source"]["kind"]
    events = {
        "latent": "an analytic latent world",
        "pools": "pools of embedded events",
        "events": "its own simulated or given collisions and its own encoders",
    }[source]
    sentence = (
        "The samples differ: the paper used the public 40 MHz dataset with its detector simulation, this "
        f"study {events}. Numbers of the paper are shown for orientation and need not agree."
    )
    if not any(paper.comparable(c.expected, c.reference) for c in evidence.configurations):
        sentence += (
            f" Here they are left out: the paper's toys have {paper.expected:g} expected and "
            f"{paper.reference} reference events, these have others."
        )
    return sentence


def render(evidence: Evidence, chapters: list[Chapter]) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("covad.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    return environment.get_template("report.html.j2").render(
        answers=answers(evidence),
        main=main_configuration(evidence).short,
        glossary=glossary(),
        sections=chapters,
        samples=samples_differ(evidence, read_paper()),
        summary=evidence.summary,
        origin=list(_origin(evidence)),
        study=yaml.safe_dump(_portable(evidence), sort_keys=False, allow_unicode=True),
    )


def _portable(evidence: Evidence) -> dict[str, object]:
    """The study without the directory that it was read from."""
    study = dict(evidence.study)
    study["source"] = {key: value for key, value in study["source"].items() if key != "folder"}
    return study


def _origin(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """How the run was made."""
    yield "covad", str(evidence.summary["covad"])
    manifest = evidence.summary.get("manifest") or {}
    for title, key in (("versions", "versions"), ("machine", "machine")):
        if content := manifest.get(key):
            yield title, ", ".join(f"{name} {value}" for name, value in content.items())
    yield (
        "toys",
        f"{_core_hours(evidence):.3g} core-hours, those of all {evidence.summary['toys']['done']} toys",
    )
    others = {stage: x for stage, x in (manifest.get("seconds") or {}).items() if stage != "toys"}
    if others:
        told = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in others.items())
        yield "other stages", f"{told}: wall time of the calls of covad run that were completed"


def _core_hours(evidence: Evidence) -> float:
    """Of all toys, also those of calls that were interrupted or ran elsewhere: each toy knows its seconds."""
    lines = evidence.summary["ensembles"]
    return float(sum(line["done"] * (line["seconds_per_toy"] or 0.0) for line in lines) / 3600)
