"""Tables of what `covad test` found in observed files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from covad.inference.inputs import ALPHA, LARGE, SIGMAS, Quantity
from covad.nplm.fit import Status
from covad.observed.result import Answer, Observation
from covad.report.names import null_label, test_label
from covad.report.tables.table import Cell, Column, Row, Table, z_cell
from covad.report.texts import texts


def file_names(observations: Sequence[Observation]) -> list[str]:
    """Return the files; with yield and auxiliary values where one was asked about in several ways."""
    asked = Counter((observation.file, observation.label) for observation in observations)
    names = []
    for observation in observations:
        values = [f"{n.name} {n.auxiliary:+.3g}" for n in observation.nuisances if n.auxiliary]
        question = ", ".join([f"{observation.expected:g} expected", *values])
        several = asked[observation.file, observation.label] > 1
        names.append(f"{observation.file} ({question})" if several else observation.file)
    return names


def result_table(observations: Sequence[Observation]) -> Table | None:
    """Return the one p and Z of every file and configuration, by the rule that the study names."""
    if not observations:
        return None
    rows = [
        Row((file, observation.label, test_label(observation.rule)), _result_cells(observation.answer))
        for file, observation in zip(file_names(observations), observations, strict=True)
    ]
    return Table(
        name="observed_results",
        **texts("tables", "observed_results"),
        keys=("file", "configuration", "rule"),
        columns=(
            *(Column(name) for name in ("p", "Z", "largest p over toys", "fit")),
            Column("how p is made", prose=True),
        ),
        rows=tuple(rows),
        quantity="p and Z",
    )


def _result_cells(answer: Answer) -> tuple[Cell, ...]:
    """Write p and Z as the last line of `covad test` does."""
    p, z = Cell("none"), Cell("none")
    if answer.p is not None and answer.z is not None:
        above = answer.bound and answer.z > 0
        p = Cell(f"{'<= ' if above else ''}{answer.p:.3g}", answer.p)
        sign = "" if not answer.bound else ">= " if above else "<= "
        z = Cell(f"{sign}{answer.z:.2f}", answer.z, extrapolated=answer.extrapolated)
    largest = Cell() if answer.largest_p is None else Cell(f"{answer.largest_p:.3g}", answer.largest_p)
    fit = Cell(answer.status.value, good=None if answer.status is Status.CONVERGED else False)
    return p, z, largest, fit, Cell(answer.how)


def observed_table(observations: Sequence[Observation]) -> Table | None:
    """Return t, p and Z, one row per file, configuration and test, and one for the joint p of both."""
    answers = []
    for file, observation in zip(file_names(observations), observations, strict=True):
        answers += [(file, observation, test.test, test.t, test.significances) for test in observation.tests]
        if observation.joint is not None:
            answers.append((file, observation, "joint", None, (observation.joint,)))
    if not answers:
        return None
    nulls = list(dict.fromkeys(found.null for *_, significances in answers for found in significances))
    rows = []
    for file, observation, test, t, significances in answers:
        cells = [Cell() if t is None else Cell(f"{t:.2f}", t)]
        against = {found.null: found for found in significances}
        for null in nulls:
            if null not in against:
                cells += [Cell(), Cell()]
                continue
            p = against[null].p
            cells += [Cell(f"{p:.2g}", p), z_cell(against[null])]
        rows.append(Row((file, observation.label, test_label(test)), tuple(cells)))
    columns = [Column(name, null_label(null).text) for null in nulls for name in ("p", "Z")]
    return Table(
        name="observed_files",
        **texts("tables", "observed_files"),
        keys=("file", "configuration", "test"),
        columns=(Column("t"), *columns),
        rows=tuple(rows),
        quantity="t, p and Z",
    )


def compared_files(observations: Sequence[Observation]) -> dict[str, Observation]:
    """Return one answer per observed file: the comparison of inputs is the same in all of them."""
    files = {(observation.file, observation.sha256): observation for observation in observations}
    names = Counter(file for file, _ in files)
    return {
        file if names[file] == 1 else f"{file} ({sha256[:8]})": observation
        for (file, sha256), observation in files.items()
    }


def input_table(observations: Sequence[Observation]) -> Table | None:
    """Return every input of the observed files beside the simulation, one row per file and input."""
    rows = [
        Row((file, quantity.name), _input_cells(quantity))
        for file, observation in compared_files(observations).items()
        for quantity in observation.inputs.quantities
    ]
    if not rows:
        return None
    sample = ("mean", "5 % quantile", "95 % quantile", "smallest", "largest")
    columns = [Column(part, where) for where in ("data", "simulation") for part in sample]
    return Table(
        name="observed_inputs",
        **texts("tables", "observed_inputs", sigmas=f"{SIGMAS:g}", large=LARGE, chances=f"{1 / ALPHA:,.0f}"),
        keys=("file", "input"),
        columns=(*columns, Column("distance"), Column("of systematics"), Column("verdict")),
        rows=tuple(rows),
        quantity="inputs",
    )


def _input_cells(quantity: Quantity) -> tuple[Cell, ...]:
    cells = []
    for numbers in (quantity.data, quantity.simulation):
        if numbers is None:
            cells += [Cell()] * 5
            continue
        values = numbers.mean, numbers.quantiles[0], numbers.quantiles[-1], numbers.low, numbers.high
        cells += [Cell(f"{value:.4g}", value) for value in values]
    if (found := quantity.difference) is None:
        return (*cells, Cell(), Cell(), Cell())
    differs = found.words is not None
    verdict = Cell("differs" if differs else "agrees", good=not differs)
    distances = found.distance, found.tolerated
    return (*cells, *(Cell(f"{value:.3f}", value) for value in distances), verdict)


def event_table(observations: Sequence[Observation]) -> Table | None:
    """Return events and the agreement of all auxiliary values, one row per file and configuration."""
    if not observations:
        return None
    rows = []
    for file, observation in zip(file_names(observations), observations, strict=True):
        agreement, repeated = observation.compatibility, observation.inputs.n_repeated
        cells = (
            Cell(str(observation.n_selected), float(observation.n_selected)),
            Cell(f"{observation.expected:g}", observation.expected),
            Cell(str(len(observation.nuisances)), float(len(observation.nuisances))),
            Cell() if agreement is None else Cell(f"{agreement.p:.2g}", agreement.p),
            Cell(str(repeated), float(repeated)),
        )
        rows.append(Row((file, observation.label), cells))
    names = ("events", "expected", "nuisances", "p of the auxiliary values", "repeated")
    return Table(
        name="observed_events",
        **texts("tables", "observed_events"),
        keys=("file", "configuration"),
        columns=tuple(Column(name) for name in names),
        rows=tuple(rows),
        quantity="events",
    )
