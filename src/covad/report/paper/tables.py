"""The paper's eleven tables with our numbers, and the paper's numbers beside ours elsewhere.

Only the page imports this: the rest of the report knows nothing about the paper's numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from covad.report.paper.numbers import PaperTable, read_paper
from covad.report.tables.closure import closure_table, null_table
from covad.report.tables.significance import LAW, idealised_table, z_table
from covad.report.tables.table import Published, Table
from covad.report.texts import texts
from covad.results.summary import ConfigurationSummary, Summary
from covad.toys.ensembles import Treatment

#: Tables of the paper by the chapter that shows them.
_CHAPTERS = {
    "null": ("tab:validation_x2",),
    "closure": ("tab:validation_A", "tab:validation_unlinearized"),
    "sensitivity": (
        "tab:validation_C",
        "unlinearized_with_nuisance",
        "tab:validation_B",
        "tab:validation_D",
        "tab:validation_E",
        "tab:embedding_linearization_no_nuisance",
    ),
    "quadratic": ("tab:validation_quadratic", "tab:validation_quadratic_sig"),
}


def comparable(configuration: ConfigurationSummary) -> bool:
    """Return whether toys have the paper's sizes: significances of others cannot be compared."""
    paper = read_paper()
    return configuration.expected == paper.expected and configuration.reference == paper.reference


def _linear_profiled(configuration: ConfigurationSummary) -> bool:
    """Return whether it is of the paper's sizes, profiled and linear, as its main results are."""
    profiled = configuration.treatment is Treatment.PROFILED and configuration.order == 1
    return profiled and comparable(configuration)


def spread(test: str, configuration: ConfigurationSummary, null: str) -> float | None:
    """Return the paper's spread of Z over nu, of the network and calibrated by toys at +1 sigma."""
    if test != "network" or null == "R_0" or not _linear_profiled(configuration):
        return None
    return read_paper().spread_of_z.get(configuration.kind or "")


def clip(configuration: ConfigurationSummary) -> float | None:
    """Return the paper's W."""
    return read_paper().clips.get(configuration.kind or "") if _linear_profiled(configuration) else None


def is_role(configuration: ConfigurationSummary, spec: PaperTable) -> bool:
    """Return whether a configuration is the one of a table of the paper."""
    role = spec.configuration
    if role is None or configuration.own_sizes:
        return False
    mine = (configuration.kind, configuration.treatment.value, configuration.order)
    return mine == (role.embedding, role.treatment, role.order)


def _in_role(summary: Summary, spec: PaperTable) -> ConfigurationSummary | None:
    return next((c for c in summary.configurations if is_role(c, spec)), None)


def _idealised(configuration: ConfigurationSummary) -> bool:
    """Return whether it is one of the paper's tests without nuisances."""
    without = configuration.treatment is Treatment.NONE and configuration.kind is not None
    return without and not configuration.own_sizes


def paper_table(summary: Summary, spec: PaperTable) -> Table | None:
    """Return one of the eleven, None if the study has nothing to put there."""

    def published(test: str, configuration: ConfigurationSummary, keys: tuple[str, ...]) -> str | None:
        """Return the paper's number, for the network only and for toys of the paper's sizes only."""
        return spec.value(*keys) if test == "network" and comparable(configuration) else None

    table = _with_our_numbers(summary, spec, published)
    if table is None:
        return None
    named = replace(table, title=spec.title)
    if named.quantity != "median Z" or not named.has_paper:
        return named
    # our intervals of Z hold more than the paper's: a table that shows both says so
    return replace(named, caption=f"{named.caption} {texts('tables', 'paper_intervals')['caption']}")


def _with_our_numbers(summary: Summary, spec: PaperTable, published: Published) -> Table | None:
    if spec.kind == "null":

        def of_null(test: str, configuration: ConfigurationSummary, keys: tuple[str, ...]) -> str | None:
            return published(test, configuration, keys) if _linear_profiled(configuration) else None

        return null_table(summary, spec.title, of_null)
    if spec.kind == "idealised":
        chosen = [c for c in summary.configurations if _idealised(c)]
        return idealised_table(summary, chosen, spec.title, published)
    configuration = _in_role(summary, spec)
    if configuration is None:
        return None
    if spec.kind == "closure":
        return closure_table(summary, configuration, published)
    return z_table(summary, configuration, spec.calibrated_by or "R_0", published)


def chapter_tables(summary: Summary, chapter: str) -> Iterator[tuple[Table | None, str]]:
    """Return the paper's tables that stand in a chapter, in its order, with why one is not there."""
    for spec in read_paper().tables:
        if spec.label in _CHAPTERS[chapter]:
            yield paper_table(summary, spec), absent(summary, spec)


def other_tables(summary: Summary) -> Iterator[Table]:
    """Return closure and significances of configurations that no table of the paper covers."""
    for configuration in summary.configurations:
        kinds = {spec.kind for spec in read_paper().tables if _in_role(summary, spec) == configuration}
        if "closure" not in kinds and (table := closure_table(summary, configuration)):
            yield table
        if "z" not in kinds and not _idealised(configuration):
            for null in ("R_0", LAW):
                if table := z_table(summary, configuration, null):
                    yield table


def absent(summary: Summary, spec: PaperTable) -> str:
    """Say why one of the eleven is not there."""
    role = spec.configuration
    if role is not None and _in_role(summary, spec) is None:
        order = ", quadratic" if role.order == 2 else ""
        return f"{spec.title}: the study has no configuration ({role.embedding}, {role.treatment}{order})."
    return f"{spec.title}: its toys are not there (in the paper: {read_paper().toys} per ensemble)."


def samples_differ(summary: Summary) -> str:
    """Say in a plain sentence what may be compared."""
    events = {
        "latent": "an analytic latent world",
        "pools": "pools of embedded events",
        "events": "its own simulated or given collisions and its own encoders",
    }[summary.study.source.kind]
    sentence = (
        "The samples differ: the paper used the public 40 MHz dataset with its detector simulation, this "
        f"study {events}. Numbers of the paper are shown for orientation and need not agree."
    )
    paper = read_paper()
    if not any(comparable(c) for c in summary.configurations):
        sentence += (
            f" Here they are left out: the paper's toys have {paper.expected:g} expected and "
            f"{paper.reference} reference events, these have others."
        )
    return sentence
