"""Tables of what was run: toys of every ensemble, and the clip W of the network."""

from __future__ import annotations

from collections.abc import Callable

from covad.report.names import point_label, share, signal_label, test_label
from covad.report.tables.table import Cell, Column, Row, Table
from covad.report.texts import texts
from covad.results.summary import ConfigurationSummary, Summary, select
from covad.toys.truths import point_name

_COUNTED = ("requested", "done", "failed", "missing", "unconverged")
#: A published W of a configuration; None: nothing.
PublishedClip = Callable[[ConfigurationSummary], float | None]


def clip_table(summary: Summary, published: PublishedClip) -> Table | None:
    """Return W of every configuration, with the mean of its null."""
    rows = []
    for line in summary.clips:
        configuration = summary.configuration(line.configuration)
        paper = published(configuration)
        text = f"{line.clip:.4g}" + (f" ± {line.error:.2g}" if line.error else "")
        cells = [Cell(text, line.clip, paper=None if paper is None else f"{paper:g}")]
        null = select(summary.nulls, test="network", configuration=line.configuration)
        if null:
            dof = round(null[0].law.effective_dof)
            cells.append(Cell(f"{dof}", dof))
            cells += [Cell(f"{value:.2f}", value) for value in (null[0].mean, null[0].std)]
        else:
            cells += [Cell()] * 3
        rows.append(Row((configuration.label,), tuple(cells)))
    if not rows:
        return None
    return Table(
        name="clips",
        **texts("tables", "clips"),
        keys=("configuration",),
        columns=(Column("W"), Column("dof"), Column("mean of t", "R₀"), Column("standard deviation", "R₀")),
        rows=tuple(rows),
        quantity="W",
    )


def toys_table(summary: Summary) -> Table:
    """Count requested = done + failed + missing, for each ensemble and in sum."""
    rows = []
    for line in summary.ensembles:
        signal = ""
        if line.signal is not None:
            signal = f"{signal_label(line.signal).text}, {share(line.injected, line.expected)}"
        label = summary.configuration(line.configuration).label
        cells = [Cell(f"{getattr(line, key)}", getattr(line, key)) for key in _COUNTED]
        seconds = line.seconds_per_toy
        cells.append(Cell() if seconds is None else Cell(f"{seconds:.2g}", seconds))
        where = point_name(line.nu, summary.shape_names, line.nu_norm, line.prior, line.along_worst)
        rows.append(Row((test_label(line.test), label, point_label(where).text, signal), tuple(cells)))
    totals = [sum(getattr(line, key) for line in summary.ensembles) for key in _COUNTED]
    rows.append(Row(("all", "", "", ""), (*(Cell(f"{total}", total) for total in totals), Cell())))
    return Table(
        name="toys",
        **texts("tables", "toys"),
        keys=("test", "configuration", "toys at", "signal"),
        columns=(*(Column(key) for key in _COUNTED), Column("seconds per toy")),
        rows=tuple(rows),
        quantity="toys",
    )
