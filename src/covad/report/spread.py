"""How much the significance of a signal depends on the true nu, which a robust test does not feel."""

from __future__ import annotations

from dataclasses import dataclass

from covad.report.evidence import Configuration, Evidence
from covad.report.paper.numbers import read_paper
from covad.report.paper.tables import calibration_of


@dataclass(frozen=True)
class SpreadOfZ:
    """The largest difference of Z between two nu, over all signals; bounds have none and are counted.

    `paper` is that of the same configuration of the paper, with the same calibration.
    """

    null: str
    largest: float | None
    bounds: int
    paper: float | None


def spread_of_z(evidence: Evidence, configuration: Configuration, test: str) -> SpreadOfZ | None:
    """None where no signal has toys at several nu."""
    null = calibration_of(evidence, "significance", test, configuration)
    spreads, bounds = [], 0
    key = {"test": test, "configuration": configuration.name, "null": null}
    for signal, injected in evidence.injections(configuration):
        lines = evidence.lines("significance", **key, signal=signal, injected=injected)
        z = [line["z"] for line in lines if not line["saturated"]]
        bounds += len(lines) - len(z) if len(lines) > 1 else 0
        spreads += [max(z) - min(z)] if len(z) > 1 else []
    if not spreads and not bounds:
        return None
    paper = _papers(configuration) if test == "network" and null != "R_0" else None
    return SpreadOfZ(null, max(spreads, default=None), bounds, paper)


def _papers(configuration: Configuration) -> float | None:
    paper = read_paper()
    same_sizes = paper.comparable(configuration.expected, configuration.reference)
    compared = same_sizes and configuration.treatment == "profiled" and configuration.order == 1
    return paper.spread_of_z.get(configuration.kind or "") if compared else None
