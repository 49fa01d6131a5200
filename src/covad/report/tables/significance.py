"""Tables of median significances: against one null, against every null, and without nuisances."""

from __future__ import annotations

from collections.abc import Sequence

from covad.report.names import (
    Injection,
    configuration_title,
    nu_label,
    null_label,
    ordered,
    share,
    shown_errors,
    signal_label,
    slug,
    test_label,
)
from covad.report.tables.table import Cell, Column, Published, Row, Table, nothing_published, z_cell
from covad.report.texts import followed, texts
from covad.results.overview import law_of, signs_text
from covad.results.summary import ConfigurationSummary, SignalSignificance, Summary, select
from covad.toys.truths import point_name

#: In place of a null: the law of each test.
LAW = "law"


def z_table(
    summary: Summary, configuration: ConfigurationSummary, null: str, published: Published = nothing_published
) -> Table | None:
    """Return the median Z per signal, injection and nu of the toys, calibrated by one null or by `LAW`."""
    injections = ordered(summary.injections(configuration.configuration))
    rows, laws, names = [], [], summary.shape_names
    for test in summary.tests_of(configuration.configuration):
        law = law_of(summary, test, configuration.configuration)
        calibration = law.name if law and null == LAW else null
        laws.append(f"{null_label(calibration).text} of the {test_label(test)}")
        key = {"test": test, "configuration": configuration.configuration, "null": calibration}
        mine = select(summary.significance, **key)
        for nu in summary.points:
            if lines := select(mine, nu=nu):
                cells = _z_cells(
                    lines, injections, configuration, point_name(nu, names).removeprefix("R_"), published
                )
                rows.append(Row((test_label(test), nu_label(nu, names).text), cells))
    if not rows:
        return None
    values = {
        "configuration": configuration_title(configuration),
        "null": f"the law of the null ({', '.join(laws)})" if null == LAW else null_label(null).text,
        "expected": f"{configuration.expected:g}",
    }
    signed = null.replace("+", "plus_").replace("-", "minus_")  # names of files have no signs
    return Table(
        name=slug(f"z_{signed}_{configuration.configuration}"),
        **followed(
            texts("tables", "z", **values), shown_errors(signs_text(summary, configuration.configuration))
        ),
        keys=("test", "toys at"),
        columns=_injection_columns(injections, configuration),
        rows=tuple(rows),
        quantity="median Z",
    )


def _z_cells(
    lines: Sequence[SignalSignificance],
    injections: Sequence[Injection],
    configuration: ConfigurationSummary,
    row: str,
    published: Published,
) -> tuple[Cell, ...]:
    """Return one cell per injection; the lines are of one test."""
    cells = []
    for signal, injected in injections:
        keys = (signal, share(injected, configuration.expected), row)
        paper = published(lines[0].test, configuration, keys)
        found = select(lines, signal=signal, injected=injected)
        cells.append(z_cell(found[0], paper) if found else Cell(paper=paper))
    return tuple(cells)


def _injection_columns(
    injections: Sequence[Injection], configuration: ConfigurationSummary
) -> tuple[Column, ...]:
    return tuple(
        Column(share(injected, configuration.expected), signal_label(signal).text)
        for signal, injected in injections
    )


def idealised_table(
    summary: Summary,
    configurations: Sequence[ConfigurationSummary],
    title: str,
    published: Published,
) -> Table | None:
    """Return Z without nuisances in test and data: what a space can do at best."""
    injections = ordered(
        dict.fromkeys(i for c in configurations for i in summary.injections(c.configuration))
    )
    rows = []
    for test in summary.tests:
        for configuration in configurations:
            key = {"test": test, "configuration": configuration.configuration, "null": "R_0"}
            lines = [line for line in select(summary.significance, **key) if not any(line.nu)]
            if lines:
                cells = _z_cells(lines, injections, configuration, configuration.kind or "", published)
                rows.append(Row((test_label(test), configuration.space), cells))
    if not rows:
        return None
    return Table(
        name="z_without_nuisances",
        title=title,
        caption=followed(texts("tables", "idealised"), shown_errors(signs_text(summary)))["caption"],
        keys=("test", "space"),
        columns=_injection_columns(injections, configurations[0]),
        rows=tuple(rows),
        quantity="median Z",
    )


def calibration_table(summary: Summary) -> Table | None:
    """Return Z of every signal at nu = 0 against every null: how much the choice of the null matters."""
    nulls = tuple(dict.fromkeys(line.null for line in summary.significance))
    rows: dict[tuple[str, ...], dict[str, Cell]] = {}
    for line in summary.significance:
        if not any(line.nu):
            configuration = summary.configuration(line.configuration)
            injection = f"{signal_label(line.signal).text}, {share(line.injected, configuration.expected)}"
            keys = (injection, configuration.label, test_label(line.test))
            rows.setdefault(keys, {})[line.null] = z_cell(line)
    if not rows:
        return None
    return Table(
        name="calibrations",
        **followed(texts("tables", "calibrations"), shown_errors(signs_text(summary))),
        keys=("signal", "configuration", "test"),
        columns=tuple(Column(null_label(null).text) for null in nulls),
        rows=tuple(
            Row(keys, tuple(found.get(null, Cell()) for null in nulls))
            for keys, found in sorted(rows.items())
        ),
        quantity="median Z",
    )
