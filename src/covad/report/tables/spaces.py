"""Tables of the learned spaces, from fresh events without toys: separation, linearity, reach, validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covad.report.evidence import Evidence, Line
from covad.report.names import nu_label
from covad.report.tables.table import MISSING, Cell, Column, Row, Table, interval_cell
from covad.report.texts import texts

#: Shifts at which the linearity is shown, in units of sigma.
_SIZES = (1.0, 2.0)
_PROBE_KEYS = ("accuracy", "accuracy_uncertainty", "balanced_accuracy")


def embedding_table(evidence: Evidence) -> Table | None:
    """How well an embedding separates the processes, and how linearly it answers to nu."""
    spaces = {space["embedding"]: space for space in reversed(evidence.lines("spaces"))}
    named = [entry["name"] for entry in evidence.study["source"].get("systematics") or ()]
    rows = [
        Row(
            (name, _axis(direction, named)),
            (*_probe_cells(space["probe"]), *_linearity_cells(space, direction)),
        )
        for name, space in sorted(spaces.items())
        for direction in _directions(space)
    ]
    if not rows:
        return None
    return Table(
        name="embeddings",
        **texts("tables", "embeddings"),
        keys=("embedding", "along"),
        columns=(
            Column("accuracy [%]", "linear probe"),
            Column("balanced [%]", "linear probe"),
            Column("effect of 1σ on log N"),
            *(Column(f"at {size:g}σ [%]", "departure from linearity") for size in _SIZES),
        ),
        rows=tuple(rows),
        quantity="separation and linearity",
    )


def _directions(space: Line) -> list[list[float]]:
    """Of the nuisances, each once; an empty one stands for a space whose linearity is not known."""
    found = {tuple(line["direction"]): list(line["direction"]) for line in space["linearity"]}
    return list(found.values()) or [[]]


def _axis(direction: list[float], named: Sequence[str]) -> str:
    """A systematic by its name where the study gives one, else a nuisance by its number."""
    if not direction:
        return MISSING
    number = direction.index(1.0)
    if len(named) == len(direction):
        return named[number]
    return f"ν{number + 1}" if len(direction) > 1 else "ν"


def _probe_cells(probe: Line) -> tuple[Cell, Cell]:
    accuracy, error, balanced = (100 * probe[key] for key in _PROBE_KEYS)
    return Cell(f"{accuracy:.2f} ± {error:.2f}", accuracy), Cell(f"{balanced:.1f}", balanced)


def _linearity_cells(space: Line, direction: list[float]) -> tuple[Cell, ...]:
    """In cells of all latent dimensions; few events may have left them out."""
    lines = {
        line["size"]: line
        for line in space["linearity"]
        if line["where"] == "cells" and list(line["direction"]) == direction
    }
    first = lines.get(_SIZES[0])
    effect = Cell() if first is None else Cell(f"{first['effect']:.3f}", first["effect"])
    return effect, *(_departure_cell(lines[size]) if size in lines else Cell() for size in _SIZES)


def _departure_cell(line: Line) -> Cell:
    """An upper end alone where noise leaves no departure."""
    departure, low, high = (100 * line[key] for key in ("departure", "low", "high"))
    if departure <= 0.0:
        return Cell(f"<= {high:.1f}", None, None, high)
    return interval_cell(departure, low, high, 1)


def fold_table(evidence: Evidence) -> Table | None:
    """How much the results depend on the fold; None for a study with one encoder per embedding."""
    rows = [
        Row((space["embedding"], _order(space), str(line["fold"])), _fold_cells(line))
        for space in evidence.lines("spaces")
        if len(space["folds"]) > 1
        for line in space["folds"]
    ]
    if not rows:
        return None
    points = [reach["nu"] for reach in evidence.lines("spaces")[0]["reach"]]
    return Table(
        name="folds",
        **texts("tables", "folds"),
        keys=("embedding", "response", "fold"),
        columns=(
            Column("accuracy [%]", "linear probe"),
            Column("balanced [%]", "linear probe"),
            *(Column(nu_label(nu).text, "reach [events]") for nu in points),
        ),
        rows=tuple(rows),
        quantity="spread over folds",
    )


def _fold_cells(line: Line) -> tuple[Cell, ...]:
    return *_probe_cells(line["probe"]), *(_reach_cell(reach) for reach in line["reach"])


def reach_table(evidence: Evidence) -> Table | None:
    """How many events the response is good for."""
    rows = []
    for space in evidence.lines("spaces"):
        for reach in space["reach"]:
            keys = (space["embedding"], _order(space), nu_label(reach["nu"]).text)
            at = Cell(f"{reach['at_shift']:g}", reach["at_shift"])
            rows.append(Row(keys, (_reach_cell(reach), at, _count(reach["fresh_events"]))))
    if not rows:
        return None
    return Table(
        name="closure_reach",
        **texts("tables", "closure_reach"),
        keys=("embedding", "response", "at"),
        columns=(Column("reach [events]"), Column("at a shift of [σ]"), Column("fresh events")),
        rows=tuple(rows),
        quantity="events",
    )


def _order(space: Line) -> str:
    return "linear" if space["order"] == 1 else "quadratic"


def _reach_cell(reach: Line) -> Cell:
    """Events or, where the misfit is compatible with none, the lower end of the interval."""
    interval = reach["interval"]
    low, high = interval["low"], interval["high"]
    if reach["n_events"] is None or high is None:
        return Cell(f">= {low:,.0f}".replace(",", " ") if low is not None else "unlimited", None, low, None)
    n = reach["n_events"]
    ends = f"+{high - n:,.0f} -{n - low:,.0f}" if low is not None else ""
    return Cell(f"{n:,.0f} {ends}".replace(",", " ").strip(), n, low, high)


def _count(n: Any) -> Cell:
    return Cell() if n is None else Cell(f"{n:,}".replace(",", " "), float(n))


def validation_table(evidence: Evidence) -> Table | None:
    """Predicted against observed counts per space, place and nu."""
    rows = [
        Row((space["embedding"], _order(space), line["where"], nu_label(line["nu"]).text), _validation(line))
        for space in evidence.lines("spaces")
        for line in space["validation"]
    ]
    if not rows:
        return None
    return Table(
        name="response_validation",
        **texts("tables", "response_validation"),
        keys=("embedding", "response", "where", "at"),
        columns=(Column("χ²"), Column("dof"), Column("p"), Column("residual [%]")),
        rows=tuple(rows),
        quantity="validation",
    )


def _validation(line: Line) -> tuple[Cell, ...]:
    return (
        Cell(f"{line['chi2']:.1f}", line["chi2"]),
        Cell(f"{line['dof']}", line["dof"]),
        Cell(f"{line['p']:.2g}", line["p"]),
        _residual_cell(100 * line["residual_share"]),
    )


def _residual_cell(residual: float) -> Cell:
    """Below zero, the squared misfit is less than the noise expected in it, and has no size."""
    return Cell("none seen") if residual < 0 else Cell(f"{residual:.1f}", residual)
