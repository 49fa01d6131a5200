"""What `covad test` found in observed files: significances of all, pictures of the most significant ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from covad.inference.intervals import Interval
from covad.inference.significance import Significance
from covad.report.canvas import BLACK, GREY, Figure, Panel, drawing, headroom, legend, panel
from covad.report.evidence import Evidence, Line
from covad.report.latent_figures import filled
from covad.report.names import null_label, slug, test_label
from covad.report.table import Cell, Column, Row, Table
from covad.report.texts import texts

#: Observed files that get pictures.
PICTURED = 2


def observed_table(evidence: Evidence) -> Table | None:
    """One row per file and configuration."""
    if not evidence.observed:
        return None
    keys = list(dict.fromkeys(key for line in evidence.observed for key in _significances(line)))
    rows = [
        Row((line["file"], line["configuration"]), tuple(_cells(line, keys))) for line in evidence.observed
    ]
    columns = (
        Column("events"),
        Column("expected"),
        Column("p of the auxiliary values"),
        *(Column(null_label(_plain_null(null)).text, f"Z, {test_label(test)}") for test, null in keys),
    )
    return Table(
        name="observed_files",
        **texts("tables", "observed_files"),
        keys=("file", "configuration"),
        columns=columns,
        rows=tuple(rows),
        quantity="Z",
    )


def _plain_null(null: str) -> str:
    return "chi2" if null.startswith("chi2") else null


def _significances(line: Line) -> dict[tuple[str, str], Line]:
    """By test and null; a failed fit has none."""
    return {(test["test"], z["null"]): z for test in line["tests"] for z in test["significances"]}


def _cells(line: Line, keys: Iterable[tuple[str, str]]) -> Iterator[Cell]:
    yield Cell(str(line["n_selected"]), float(line["n_selected"]))
    yield Cell(f"{line['expected']:g}", line["expected"])
    agreement = line["compatibility"]
    yield Cell() if agreement is None else Cell(f"{agreement['p']:.2g}", agreement["p"])
    found = _significances(line)
    for key in keys:
        yield _z_cell(found[key]) if key in found else Cell()


def _z_cell(line: Line) -> Cell:
    found = _significance(line)
    return Cell(found.text, found.z, found.interval.low, found.interval.high)


def _significance(line: Line) -> Significance:
    """As `covad test` had it, so that the page and the terminal write it alike."""
    ends = ("null_interval", "median_interval", "interval")
    intervals = {key: None if line[key] is None else Interval(**line[key]) for key in ends}
    return Significance(**{**line, **intervals})


def excess_figures(evidence: Evidence) -> Iterator[Figure]:
    """Where the excess lies, for each test on the files of largest Z."""
    ranked = sorted(evidence.observed, key=_largest_z, reverse=True)
    for line in ranked[:PICTURED]:
        for test in line["tests"]:
            if test["excess"] is not None:
                yield _excess_figure(line, test)


def _largest_z(line: Line) -> float:
    return max((float(z["z"]) for z in _significances(line).values()), default=-np.inf)


def _excess_figure(line: Line, test: Line) -> Figure:
    excess = test["excess"]
    name = slug(f"excess_{line['name']}_{test['test']}")
    words = texts(
        "figures",
        "excess",
        file=line["file"],
        test=test_label(test["test"]),
        n_top=excess["n_top"],
        expected=f"{excess['expected']:.1f}",
    )
    panels = tuple(_observable_panel(name, observable) for observable in excess["observables"])
    return Figure(name, panels=panels, **words)


def _observable_panel(prefix: str, observable: Line) -> Panel:
    edges, top, region, observed, everywhere = (
        np.array(observable[key]) for key in ("edges", "top", "region", "observed", "everywhere")
    )
    centres = (edges[1:] + edges[:-1]) / 2
    with drawing((1.7, 0.9)) as (canvas, (above, below)):
        filled(above, region, edges, "expected there")
        above.errorbar(centres, top, np.sqrt(top), fmt="o", color=BLACK, label="events of largest h")
        above.set_ylabel("events")
        headroom(above)
        legend(above)
        some = everywhere > 0
        ratio, error = (x[some] / everywhere[some] for x in (observed, np.sqrt(observed)))
        below.axhline(1.0, color=GREY, linestyle="--")
        below.errorbar(centres[some], ratio, error, fmt=".", color=BLACK)
        below.set_ylim(0.0, 2.0)
        below.set_ylabel("all / exp.")
        below.set_xlabel(observable["name"])
        name = slug(f"{prefix}_{observable['name']}")
        return panel(name, f"{observable['name']} of the events of largest h", canvas)
