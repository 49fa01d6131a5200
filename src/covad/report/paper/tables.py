"""The paper's eleven tables with our numbers, and the same for configurations that it does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from covad.report.evidence import Configuration, Evidence, Line
from covad.report.names import (
    SIGNAL_ORDER,
    goodness_label,
    nu_key,
    nu_label,
    null_label,
    share,
    signal_label,
    slug,
    test_label,
)
from covad.report.paper.numbers import Paper, PaperTable, read_paper
from covad.report.tables.table import Cell, Column, Row, Table, z_cell
from covad.report.texts import texts

#: Calibration by the law of the null: chi2 of the network, the generalised chi2 of the convex test.
LAWS = {"network": "chi2", "convex": "analytic"}
LAW = "law"
_LAW_NAMES = "the law of the null (χ² of the network, generalised χ² of the convex test)"
#: The paper's calibration of Z and power.
_CALIBRATION = "R_+1"
Injection = tuple[str, float]


def calibration_of(evidence: Evidence, section: str, test: str, configuration: Configuration) -> str:
    """The paper's null, R_0 for a configuration that has no toys at +1 sigma."""
    known = evidence.lines(section, test=test, configuration=configuration.name, null=_CALIBRATION)
    return _CALIBRATION if known else "R_0"


def paper_table(evidence: Evidence, spec: PaperTable) -> Table | None:
    """One of the eleven, None if the study has nothing to put there."""
    if spec.kind == "null":
        return null_table(evidence, spec)
    if spec.kind == "idealised":
        return idealised_table(evidence, spec)
    configuration = evidence.playing(spec.configuration)
    if configuration is None:
        return None
    if spec.kind == "closure":
        return closure_table(evidence, configuration, spec)
    return z_table(evidence, configuration, spec.calibrated_by or "R_0", spec)


def other_tables(evidence: Evidence) -> Iterator[Table]:
    """Closure and significances of configurations that no table of the paper covers."""
    tables = read_paper().tables
    for configuration in evidence.configurations:
        kinds = {spec.kind for spec in tables if configuration.plays(spec.configuration)}
        if "closure" not in kinds and (table := closure_table(evidence, configuration)):
            yield table
        idealised = configuration.treatment == "none" and configuration.kind and not configuration.own_sizes
        if "z" in kinds or idealised:
            continue
        for null in ("R_0", LAW):
            if table := z_table(evidence, configuration, null):
                yield table


def _paper_cells(configuration: Configuration, test: str) -> bool:
    """The paper's numbers stand beside the network's only, and only for toys of the paper's sizes."""
    return test == "network" and read_paper().comparable(configuration.expected, configuration.reference)


def _p_cell(found: Line | None, paper: str | None) -> Cell:
    if found is None:
        return Cell(paper=paper)
    return Cell(found["text"], found["p"], paper=paper)


def _named(lines: Sequence[Line], test: str) -> Line | None:
    return next((line for line in lines if line["test"] == test), None)


def null_table(evidence: Evidence, spec: PaperTable) -> Table | None:
    """R_0 of every configuration against the law of its test: goodness-of-fit p-values."""
    nulls = [line for line in evidence.lines("nulls") if _against_law(line)]
    if not nulls:
        return None
    tests = tuple(dict.fromkeys(found["test"] for line in nulls for found in _against_law(line)))
    by_name = {c.name: c for c in evidence.configurations}
    rows = []
    for line in nulls:
        configuration = by_name[line["configuration"]]
        paper = _paper_cells(configuration, line["test"]) and _profiled(configuration)
        cells = tuple(
            _p_cell(_named(_against_law(line), t), spec.value(configuration.kind or "", t) if paper else None)
            for t in tests
        )
        rows.append(Row((test_label(line["test"]), configuration.short), cells))
    return Table(
        name=slug(spec.label.removeprefix("tab:")),
        title=spec.title,
        caption=texts("tables", "null_law")["caption"],
        keys=("test", "configuration"),
        columns=tuple(Column(goodness_label(test)) for test in tests),
        rows=tuple(rows),
        quantity="p-value",
        paper_label=spec.label,
    )


def _against_law(line: Line) -> Sequence[Line]:
    found: Sequence[Line] = line["against_chi2"] or (line["analytic"] or {}).get("against", ())
    return found


def _profiled(configuration: Configuration) -> bool:
    return configuration.treatment == "profiled" and configuration.order == 1


def closure_table(
    evidence: Evidence, configuration: Configuration, spec: PaperTable | None = None
) -> Table | None:
    """R_nu against R_0 and against chi2, with Holm's corrected p-values on request of the caption."""
    lines = evidence.lines("closure", configuration=configuration.name)
    if not lines:
        return None
    blocks = [("R_0", "against_null"), *([("chi2", "against_chi2")] if _any(lines, "against_chi2") else [])]
    columns = [(line["nu"], null, block) for null, block in blocks for line in lines]
    columns = [c for n, c in enumerate(columns) if c not in columns[:n]]
    rows = [
        Row(
            (test_label(test), goodness_label(goodness)),
            tuple(_closure_cell(evidence, configuration, test, goodness, column, spec) for column in columns),
        )
        for test in evidence.tests
        for goodness in _goodness_tests(lines, test)
    ]
    return Table(
        name=_name(spec, "closure", configuration),
        **_texts(spec, "closure", configuration=configuration.title),
        keys=("test", "goodness of fit"),
        columns=tuple(
            Column(nu_label(nu).text, f"against {null_label(null).text}") for nu, null, _ in columns
        ),
        rows=tuple(rows),
        quantity="p-value",
        paper_label=spec.label if spec else None,
    )


def _any(lines: Sequence[Line], block: str) -> bool:
    return any(line[block] for line in lines)


def _goodness_tests(lines: Sequence[Line], test: str) -> tuple[str, ...]:
    mine = (line for line in lines if line["test"] == test)
    return tuple(dict.fromkeys(found["test"] for line in mine for found in line["against_null"]))


def _closure_cell(
    evidence: Evidence,
    configuration: Configuration,
    test: str,
    goodness: str,
    column: tuple[Sequence[float], str, str],
    spec: PaperTable | None,
) -> Cell:
    nu, null, block = column
    line = evidence.line("closure", configuration=configuration.name, test=test, nu=nu)
    paper = None
    if spec and _paper_cells(configuration, test):
        paper = spec.value(null, nu_key(nu), goodness)
    return _p_cell(None if line is None else _named(line[block], goodness), paper)


def ordered(injections: Sequence[Injection]) -> list[Injection]:
    """Signals in the paper's order, others after them, small injections first."""
    order = {name: number for number, name in enumerate(SIGNAL_ORDER)}
    return sorted(injections, key=lambda i: (order.get(i[0], len(order)), i[0], i[1]))


def _injection_columns(injections: Sequence[Injection], expected: float) -> tuple[Column, ...]:
    return tuple(
        Column(share(injected, expected), signal_label(signal).text) for signal, injected in injections
    )


def z_table(
    evidence: Evidence, configuration: Configuration, null: str, spec: PaperTable | None = None
) -> Table | None:
    """Median Z per signal, injection and nu of the test sample, calibrated by one null."""
    injections = ordered(evidence.injections(configuration))
    rows = []
    for test in evidence.tests:
        calibration = LAWS.get(test, null) if null == LAW else null
        key = {"test": test, "configuration": configuration.name, "null": calibration}
        for nu in evidence.points:
            lines = evidence.lines("significance", **key, nu=nu)
            if not lines:
                continue
            paper = spec if spec and _paper_cells(configuration, test) else None
            cells = tuple(_z_cell(lines, i, configuration, paper, nu_key(nu)) for i in injections)
            rows.append(Row((test_label(test), nu_label(nu).text), cells))
    if not rows:
        return None
    expected = f"{configuration.expected:g}"
    by = _LAW_NAMES if null == LAW else null_label(null).text
    return _told_apart(
        Table(
            name=_name(spec, f"z_{null}", configuration),
            **_texts(spec, "z", configuration=configuration.title, null=by, expected=expected),
            keys=("test", "toys at"),
            columns=_injection_columns(injections, configuration.expected),
            rows=tuple(rows),
            quantity="median Z",
            paper_label=spec.label if spec else None,
        )
    )


def _told_apart(table: Table) -> Table:
    """Our intervals of Z hold more than the paper's: a table that shows both says so."""
    if not table.has_paper:
        return table
    return replace(table, caption=f"{table.caption} {texts('tables', 'paper_intervals')['caption']}")


def _z_cell(
    lines: Sequence[Line],
    injection: Injection,
    configuration: Configuration,
    spec: PaperTable | None,
    row: str,
) -> Cell:
    signal, injected = injection
    paper = spec.value(signal, share(injected, configuration.expected), row) if spec else None
    line = next((x for x in lines if (x["signal"], x["injected"]) == injection), None)
    if line is None:
        return Cell(paper=paper)
    return z_cell(line, paper)


def idealised_table(evidence: Evidence, spec: PaperTable) -> Table | None:
    """Without nuisances in the test and in the data: what an embedding can do at best."""
    chosen = [c for c in evidence.configurations if c.treatment == "none" and c.kind and not c.own_sizes]
    injections = ordered(tuple(dict.fromkeys(i for c in chosen for i in evidence.injections(c))))
    rows = []
    for test in evidence.tests:
        for configuration in chosen:
            key = {"test": test, "configuration": configuration.name, "null": "R_0"}
            lines = [line for line in evidence.lines("significance", **key) if not any(line["nu"])]
            if not lines:
                continue
            paper = spec if _paper_cells(configuration, test) else None
            cells = tuple(
                _z_cell(lines, i, configuration, paper, configuration.kind or "") for i in injections
            )
            rows.append(Row((test_label(test), configuration.embedding), cells))
    if not rows:
        return None
    return _told_apart(
        Table(
            name=slug(spec.label.removeprefix("tab:")),
            title=spec.title,
            caption=texts("tables", "idealised")["caption"],
            keys=("test", "embedding"),
            columns=_injection_columns(injections, chosen[0].expected),
            rows=tuple(rows),
            quantity="median Z",
            paper_label=spec.label,
        )
    )


def _texts(spec: PaperTable | None, kind: str, **values: str) -> dict[str, str]:
    """The title is that of the paper's table where there is one."""
    found = texts("tables", kind, **values)
    return found if spec is None else found | {"title": spec.title}


def _name(spec: PaperTable | None, kind: str, configuration: Configuration) -> str:
    if spec is not None:
        return slug(spec.label.removeprefix("tab:"))
    return slug(f"{kind}_{configuration.name}")


def absent(spec: PaperTable, paper: Paper, evidence: Evidence) -> str:
    """Why one of the eleven is not there."""
    role = spec.configuration
    if role and evidence.playing(role) is None:
        order = ", quadratic" if role["order"] == 2 else ""
        return (
            f"{spec.title}: the study has no configuration ({role['embedding']}, {role['treatment']}{order})."
        )
    return f"{spec.title}: its toys are not there (in the paper: {paper.toys} per ensemble)."
