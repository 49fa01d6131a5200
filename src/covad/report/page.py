"""report.html: figures, tables and notes on what is not there, in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from covad.inference.verdict import FEWEST_TOYS
from covad.report.answers import answers
from covad.report.evidence import Evidence
from covad.report.figures import latent as latent_figures
from covad.report.figures import response as response_figures
from covad.report.figures import statistic as statistic_figures
from covad.report.figures import study as study_figures
from covad.report.figures.canvas import Figure
from covad.report.figures.excess import excess_figures
from covad.report.figures.frontier import frontier_figure
from covad.report.figures.inputs import input_figures
from covad.report.figures.nuisances import nuisance_figures, toy_nuisance_figure
from covad.report.paper import tables as paper
from covad.report.searched import searched
from covad.report.tables import closure as closure_tables
from covad.report.tables import significance as significance_tables
from covad.report.tables import spaces as space_tables
from covad.report.tables import toys as toy_tables
from covad.report.tables.frontier import frontier_table
from covad.report.tables.nuisances import correlation_table, nuisance_table, toy_nuisance_table
from covad.report.tables.observed import event_table, input_table, observed_table, result_table
from covad.report.tables.prior import prior_table
from covad.report.tables.processes import process_table
from covad.report.tables.ranking import ranking_table
from covad.report.tables.table import Table, shown
from covad.report.tables.yardsticks import yardstick_table
from covad.report.texts import glossary
from covad.results.overview import quoted_first
from covad.results.summary import Summary
from covad.study import Collisions
from covad.toys.ensembles import Treatment

#: Why a statement about toys is not there.
_FEW = f"fewer than {FEWEST_TOYS} toys per ensemble"


@dataclass
class Chapter:
    """A chapter of the page. `missing` says what the study or its run does not have.

    Figures stand before tables unless `tables_first`, where the first table has the result.
    """

    name: str
    title: str
    short: str = ""  # in the navigation, where the title is too long
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    tables_first: bool = False

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

    def paper(self, summary: Summary) -> None:
        """Add the paper's tables of this chapter with our numbers, or say why they are not there."""
        for table, otherwise in paper.chapter_tables(summary, self.name):
            self.table(table, otherwise)


def verdicts(evidence: Evidence) -> Chapter:
    chapter, summary = Chapter("verdicts", "Verdicts"), evidence.summary
    table = closure_tables.verdict_table(summary, paper.spread)
    chapter.table(table, f"Closure: {_FEW} at ν = 0 or at shifted ν.")
    chapter.table(significance_tables.calibration_table(summary), f"Significances: {_FEW} with signals.")
    return chapter


def latent(evidence: Evidence) -> Chapter:
    chapter, summary = Chapter("latent", "The latent space", "Latent space"), evidence.summary
    if not summary.spaces:
        chapter.missing.append(
            "Marginals and distortions of the latent space: this run has no encoder with a checked response."
        )
        return chapter
    space = latent_figures.main_space_first(summary)[0]
    signals = list(summary.study.signals)
    signal = "a4l" if "a4l" in signals else next(iter(signals), None)
    distortions = latent_figures.distortions(evidence, space.name, signal)
    chapter.figure(distortions, "Distortions beside a signal: the checks of the response are not there.")
    chapter.figures += latent_figures.marginal_figures(evidence)
    chapter.figure(study_figures.training_figure(summary), "Training: its losses are not there.")
    chapter.table(space_tables.separation_table(summary), "Separation and linearity: not there.")
    return chapter


def response(evidence: Evidence) -> Chapter:
    chapter, summary = Chapter("response", "The response to the nuisances", "Response"), evidence.summary
    if not summary.spaces:
        chapter.missing.append("Validation and closure reach: no response was checked in this run.")
        return chapter
    bins = response_figures.log_ratio_bins(evidence)
    chapter.figure(bins, "Log ratios per bin: there is no linear response.")
    chapter.figures += response_figures.validation_figures(evidence)
    chapter.table(space_tables.reach_table(summary), "Closure reach: not there.")
    if summary.frontier is not None:
        chapter.figure(frontier_figure(summary), "Reach by alpha: no learned space was checked.")
        chapter.table(frontier_table(summary), "Reach by alpha: no learned space was checked.")
        if not summary.frontier.has_power:
            chapter.missing.append(
                "Power of the spaces beside their reach: covad tune-power RUN measures it."
            )
    chapter.table(space_tables.validation_table(summary), "Validation: not there.")
    chapter.table(space_tables.yield_table(summary), "Yields: not there.")
    if smoothing := space_tables.smoothing_table(summary):
        chapter.tables.append(smoothing)
    if folds := space_tables.fold_table(summary):
        chapter.tables.append(folds)
    return chapter


def null(evidence: Evidence) -> Chapter:
    chapter, summary = Chapter("null", "The null and its law", "Null"), evidence.summary
    if "network" in summary.tests:
        clips = toy_tables.clip_table(summary, paper.clip)
        chapter.table(clips, "The clip W of the network: not chosen yet.")
        scan = study_figures.clip_scan(summary)
        chapter.figure(scan, "Search for W: W was given by the study or is not there.")
    for test in quoted_first(summary):
        figure = statistic_figures.null_figure(evidence, test)
        chapter.figure(figure, f"Null of the {test} test: its toys or its law are not there.")
    chapter.paper(summary)
    return chapter


def closure(evidence: Evidence) -> Chapter:
    chapter, summary = Chapter("closure", "Closure"), evidence.summary
    for test in quoted_first(summary):
        figure = statistic_figures.closure_figure(evidence, test)
        chapter.figure(figure, f"Closure of the {test} test: {_FEW} at ν = 0 or at shifted ν.")
    chapter.table(closure_tables.shift_table(summary), f"False positives: {_FEW} at ν = 0 or at shifted ν.")
    chapter.table(prior_table(summary), "Dependence on the truth: no toys are thrown from the prior.")
    if ranking := ranking_table(evidence):
        chapter.tables.append(ranking)
    chapter.paper(summary)
    chapter.tables += [t for t in paper.other_tables(summary) if t.quantity == "p-value"]
    return chapter


def sensitivity(evidence: Evidence) -> Chapter:
    chapter, summary = Chapter("sensitivity", "Sensitivity to signals", "Sensitivity"), evidence.summary
    if not summary.significance:
        missing = f"Significances: the study injects no signals, or there are {_FEW} with them."
        chapter.missing.append(missing)
        return chapter
    chapter.figures += statistic_figures.signal_figures(evidence)
    chapter.paper(summary)
    chapter.tables += [t for t in paper.other_tables(summary) if t.quantity == "median Z"]
    return chapter


def power(evidence: Evidence) -> Chapter:
    chapter = Chapter("power", "Power", figures=list(study_figures.power_figures(evidence.summary)))
    if not chapter.figures:
        chapter.missing.append(f"Power curves: {_FEW} with signals in a profiled configuration.")
    if yardsticks := yardstick_table(evidence.summary, evidence.yardsticks):
        chapter.tables.append(yardsticks)
    return chapter


def quadratic(evidence: Evidence) -> Chapter:
    chapter = Chapter("quadratic", "A quadratic response", "Quadratic")
    if any(configuration.order == 2 for configuration in evidence.summary.configurations):
        chapter.paper(evidence.summary)
    return chapter


def nuisances(evidence: Evidence) -> Chapter:
    chapter = Chapter("nuisances", "Fitted nuisances of toys", "Nuisances")
    table = toy_nuisance_table(evidence.summary)
    if table is not None:
        chapter.tables.append(table)
        chapter.figure(toy_nuisance_figure(evidence), "Fitted nuisances: no toys at ν = 0.")
    return chapter


def observed(evidence: Evidence) -> Chapter:
    chapter = Chapter("observed", "Observed files", "Observed", tables_first=True)
    chapter.figures += nuisance_figures(evidence.observed)
    chapter.figures += excess_figures(evidence.observed)
    chapter.figures += input_figures(evidence.observed)
    chapter.table(result_table(evidence.observed), "Observed files: none was tested (covad test RUN FILE).")
    if against_nulls := observed_table(evidence.observed):
        chapter.tables.append(against_nulls)
    chapter.missing += [f"{note} (covad test)." for note in evidence.notes_on_answers]
    tables = (event_table, nuisance_table, correlation_table, input_table)
    found = (table(evidence.observed) for table in tables)
    chapter.tables += [table for table in found if table is not None]
    return chapter


def toys(evidence: Evidence) -> Chapter:
    chapter = Chapter("toys", "Toys", tables=[toy_tables.toys_table(evidence.summary)])
    if processes := process_table(evidence.summary):
        chapter.tables.append(processes)
    return chapter


#: The report in reading order; observed files stand first if there are any.
CHAPTERS = (
    verdicts,
    closure,
    sensitivity,
    power,
    null,
    nuisances,
    response,
    latent,
    quadratic,
    toys,
)
#: Beside the page: what its links point to.
_PARTS = {"figures": "Figures (PDF)", "tables": "Tables (LaTeX, CSV)", "hepdata": "HEPData submission"}


def chapters_of(evidence: Evidence) -> list[Chapter]:
    """Return the chapters that have something to show or to say."""
    data = evidence.observed or evidence.outdated
    order = (observed, *CHAPTERS) if data else (*CHAPTERS, observed)
    found = [chapter(evidence) for chapter in order]
    return [chapter for chapter in found if chapter.figures or chapter.tables or chapter.missing]


def render(
    evidence: Evidence, chapters: list[Chapter], picture: Figure | None = None, written: Sequence[str] = ()
) -> str:
    """Return the page; `picture` stands on its first screen, `written` are the files of RUN/report."""
    environment = Environment(
        loader=PackageLoader("covad.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    summary = evidence.summary
    study = summary.study.plain()
    study["source"].pop("folder", None)  # the directory that it was read from is nobody's business
    script = files("covad.report").joinpath("templates/report.js").read_text(encoding="utf-8").strip()
    return environment.get_template("report.html.j2").render(
        answers=answers(evidence, paper.spread),
        searched=searched(evidence),
        picture=picture,
        main=summary.main.label,
        lead=_lead(summary),
        glossary=glossary(),
        chapters=chapters,
        samples=paper.samples_differ(summary),
        summary=summary,
        origin=list(_origin(summary)),
        study=yaml.safe_dump(study, sort_keys=False, allow_unicode=True),
        parts={
            title: [name for name in written if name.split("/")[0] == part] for part, title in _PARTS.items()
        },
        script=script,
        # the page runs this script and no other
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _lead(summary: Summary) -> str:
    """Say in what space was searched, and whether uncertainties were profiled."""
    spaces = {"latent": "an analytic latent world", "pools": "a given latent space"}
    source = summary.study.source
    learned = not isinstance(source, Collisions) or bool(source.learned)
    where = spaces.get(source.kind, "a learned latent space" if learned else "a space of observables")
    profiled = {configuration.treatment is Treatment.PROFILED for configuration in summary.configurations}
    how = {
        frozenset({True}): "with systematic uncertainties profiled",
        frozenset({False}): "without systematic uncertainties",
        frozenset({True, False}): "with and without systematic uncertainties profiled",
    }[frozenset(profiled)]
    return f"A search for anything new, in {where}, {how}."


def _origin(summary: Summary) -> Iterator[tuple[str, str]]:
    """Tell how the run was made."""
    manifest = summary.manifest
    yield "covad", summary.covad
    if manifest is not None:
        for title, content in (("versions", manifest.versions), ("machine", manifest.machine)):
            yield title, ", ".join(f"{name} {value}" for name, value in content.items())
    yield from _made_with(summary)
    yield "toys", f"{summary.core_hours:.3g} core-hours, those of all {summary.toys.done} toys"
    others = {} if manifest is None else {s: x for s, x in manifest.seconds.items() if s != "toys"}
    if others:
        told = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in others.items())
        yield "other stages", f"{told}: wall time of the calls of covad run"


def _made_with(summary: Summary) -> Iterator[tuple[str, str]]:
    """Tell which versions made toys and models, and where they were not the same."""
    toys = summary.toy_versions
    if toys:
        told = "; ".join(f"{line.toys} toys with {line.versions}" for line in toys)
        mixed = ". Between versions the same toys to the last bit are not promised" if len(toys) > 1 else ""
        yield "toys were made with", told + mixed
    stages = {} if summary.manifest is None else summary.manifest.stages
    for stage, lines in stages.items():
        if stage != "toys" and len(lines) > 1:
            told = "; ".join(f"{line.versions} (from {line.since})" for line in lines)
            yield f"stage {stage} was done with several versions", told
