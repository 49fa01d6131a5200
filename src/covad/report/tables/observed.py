"""What `covad test` found in observed files: numbers of all, pictures of the most significant ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from covad.inference.intervals import Float64, Interval
from covad.inference.significance import Significance
from covad.report.evidence import Evidence
from covad.report.figures.canvas import BLACK, GREY, Figure, Panel, drawing, headroom, legend, panel
from covad.report.figures.latent import filled
from covad.report.names import null_label, slug, test_label
from covad.report.tables.table import Cell, Column, Row, Table, z_cell
from covad.report.texts import texts

Line = Mapping[str, Any]
#: Observed files that get pictures.
PICTURED = 2
#: Scales of objects that are given in GeV.
_IN_GEV = ("pt", "et", "energy", "mass")
#: Upper end of the axis of observed over expected.
_HIGHEST_RATIO = 2.0


def observed_table(evidence: Evidence) -> Table | None:
    """One row per file, configuration and test."""
    rows = [(line, test) for line in evidence.observed for test in line["tests"]]
    if not rows:
        return None
    nulls = list(dict.fromkeys(_null_key(z) for _, test in rows for z in test["significances"]))
    columns = [Column(name, null_label(null).text) for null in nulls for name in ("p", "Z")]
    return Table(
        name="observed_files",
        **texts("tables", "observed_files"),
        keys=("file", "configuration", "test"),
        columns=(Column("t"), *columns),
        rows=tuple(
            Row(
                (line["file"], line["configuration"], test_label(test["test"])),
                tuple(_cells(test, nulls)),
            )
            for line, test in rows
        ),
        quantity="t, p and Z",
    )


def _null_key(significance: Line) -> str:
    """chi2 of any number of degrees of freedom is one column."""
    return "chi2" if significance["null"].startswith("chi2") else str(significance["null"])


def _cells(test: Line, nulls: Sequence[str]) -> Iterator[Cell]:
    """A failed fit has no t and no significance."""
    yield Cell() if test["t"] is None else Cell(f"{test['t']:.2f}", test["t"])
    found = {_null_key(z): z for z in test["significances"]}
    for null in nulls:
        if null not in found:
            yield from (Cell(), Cell())
            continue
        yield Cell(f"{found[null]['p']:.2g}", found[null]["p"])
        yield z_cell(_significance(found[null]))


def _significance(line: Line) -> Significance:
    """As `covad test` had it, so that the page and the terminal write it alike."""
    ends = ("null_interval", "median_interval", "interval")
    intervals = {key: None if line[key] is None else Interval(**line[key]) for key in ends}
    return Significance(**{field.name: line[field.name] for field in fields(Significance)} | intervals)


def nuisance_table(evidence: Evidence) -> Table | None:
    """Events and nuisances of the fit without h, one row per file and configuration."""
    if not evidence.observed:
        return None
    names = list(dict.fromkeys(fit["name"] for line in evidence.observed for fit in line["nuisances"]))
    fitted = [Column(part, name) for name in names for part in ("auxiliary", "fitted", "pull")]
    return Table(
        name="observed_nuisances",
        **texts("tables", "observed_nuisances"),
        keys=("file", "configuration"),
        columns=(Column("events"), Column("expected"), *fitted, Column("p of the auxiliary values")),
        rows=tuple(
            Row((line["file"], line["configuration"]), tuple(_nuisance_cells(line, names)))
            for line in evidence.observed
        ),
        quantity="events and nuisances",
    )


def _nuisance_cells(line: Line, names: Sequence[str]) -> Iterator[Cell]:
    yield Cell(str(line["n_selected"]), float(line["n_selected"]))
    yield Cell(f"{line['expected']:g}", line["expected"])
    found = {fit["name"]: fit for fit in line["nuisances"]}
    for name in names:
        yield from _fit_cells(found[name]) if name in found else (Cell(), Cell(), Cell())
    agreement = line["compatibility"]
    yield Cell() if agreement is None else Cell(f"{agreement['p']:.2g}", agreement["p"])


def _fit_cells(fit: Line) -> Iterator[Cell]:
    yield Cell(f"{fit['auxiliary']:.2f}", fit["auxiliary"])
    low, high = fit["fitted"] - fit["error"], fit["fitted"] + fit["error"]
    yield Cell(f"{fit['fitted']:.2f} ± {fit['error']:.2f}", fit["fitted"], low, high)
    yield Cell(f"{fit['pull']:.2f}", fit["pull"])


def excess_figures(evidence: Evidence) -> Iterator[Figure]:
    """Where the excess lies, for each test on the files of largest Z."""
    ranked = sorted(evidence.observed, key=_largest_z, reverse=True)
    for line in ranked[:PICTURED]:
        for test in line["tests"]:
            if test["excess"] is not None:
                yield _excess_figure(line, test)


def _largest_z(line: Line) -> float:
    return max((float(z["z"]) for test in line["tests"] for z in test["significances"]), default=-np.inf)


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
        _draw_ratio(below, centres, observed, everywhere)
        below.set_xlabel(axis_label(observable["name"]))
        name = slug(f"{prefix}_{observable['name']}")
        return panel(name, f"{observable['name']} of the events of largest h", canvas)


def _draw_ratio(axes: Axes, centres: Float64, observed: Float64, expected: Float64) -> None:
    """An arrow at the upper edge stands for a ratio beyond it, and for events where none is expected."""
    some = expected > 0
    ratio, error = (x[some] / expected[some] for x in (observed, np.sqrt(observed)))
    axes.axhline(1.0, color=GREY, linestyle="--")
    axes.errorbar(centres[some], ratio, error, fmt=".", color=BLACK)
    beyond = observed > _HIGHEST_RATIO * expected
    axes.plot(centres[beyond], np.full(beyond.sum(), 0.93 * _HIGHEST_RATIO), "^", color=BLACK, markersize=4)
    axes.set_ylim(0.0, _HIGHEST_RATIO)
    axes.set_ylabel("all / exp.")


def axis_label(observable: str) -> str:
    """With the unit of momenta, energies and masses, which covad's events have in GeV; numbers have none."""
    return f"{observable} [GeV]" if observable.split()[-1] in _IN_GEV else observable
