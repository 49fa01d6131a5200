"""What is expected of every process: settled before a run begins, and shown before anything is trained."""

from __future__ import annotations

import logging
import math

from covad.errors import StudyError
from covad.events.processes import BACKGROUND
from covad.runs.collisions import CollisionData
from covad.runs.counting import KEY
from covad.runs.yields import YieldTable
from covad.storage.records import write_record
from covad.study import expecting

log = logging.getLogger(__name__)

#: By how much of itself sizes.expected may differ from what is expected of all processes.
TOLERANCE = 0.2
#: Processes of a smaller share of the yield may be thin.
_VISIBLE_SHARE = 0.01
#: Effective events of a process below which its shape is hardly known, in the splits that shapes come from.
_FEWEST_EFFECTIVE, _SHAPES = 50.0, ("response", "reference")
#: The sum of selected weights in units of all generated ones that scale factors can explain.
_MOST_EFFICIENT = 1.05
#: What the finite simulation may add to the uncertainty of the yield, in units of that.
_LARGEST_ADDED = 1.0 / 3.0
#: Digits of an expected number that follows from the table.
_DIGITS = 6


def settled(data: CollisionData) -> CollisionData:
    """Return the events with the study that a run keeps: the expected events that it leaves open are known.

    Raise StudyError if it gives others than its processes add up to.
    """
    processes = data.source.background.processes
    if not processes:
        return data
    total = math.fsum(entry.expected or 0.0 for entry in processes.values())
    if data.source.background.simulate is None and data.yields is not None:
        total = data.yields.expected
    study = expecting(data.study, float(f"{total:.{_DIGITS}g}"))
    given = study.sizes.expected
    if abs(given - total) > TOLERANCE * total:
        raise StudyError(
            f"sizes.expected: {given:g} differs by more than {TOLERANCE:.0%} from the {total:.6g} events of "
            f"{KEY}: leave it out, or mend one of them"
        )
    return CollisionData.of(study, data.directory)


def tabulate_yields(data: CollisionData) -> None:
    """Count what is expected of every process, and tell it: part of the stage `events`."""
    with data.open_files(BACKGROUND, verify=False) as files:
        if not files.weighted:
            return
    product = data.products.yields()
    if product.make_room():
        write_record(product.path, data.count_yields())
        product.note()
        for line in yield_lines(data):
            log.info("%s", line)
        for sentence in doubts(data):
            log.warning("%s", sentence)


def yield_lines(data: CollisionData) -> list[str]:
    """Return the table as text, and what toys expect where that is another number; none without a table."""
    table, expected = data.yields, data.study.sizes.expected
    if table is None:
        return []
    if not table.given:
        return [
            *table.lines(),
            f"the mix is that of the weights, its yield that of sizes.expected, {expected:g}",
        ]
    if abs(expected - table.expected) > 1e-3 * expected:
        return [*table.lines(), f"toys expect {expected:g} events (sizes.expected), in this mix"]
    return table.lines()


def doubts(data: CollisionData) -> list[str]:
    """Say which processes have more selected than generated events, or are thin where shapes are taken from.

    Say too if the simulation is too small for the yield. Rows are given roles at random, so that every role
    has its part of each process.
    """
    table, told = data.yields, []
    if table is None:
        return []
    if small := _small_simulation(data, table):
        told.append(small)
    n_events = sum(line.events for line in table.processes)
    for line in table.processes:
        if (line.efficiency or 0.0) > _MOST_EFFICIENT:
            told.append(
                f"{KEY}.{line.process}: the weights of its selected events add up to {line.total:.6g}, more "
                f"than the {line.generated:.6g} of all generated ones: is the sum of generator weights right?"
            )
        for role in _SHAPES:
            given = getattr(data.source.splits, role)
            effective = line.effective * given / n_events
            if table.share(line) >= _VISIBLE_SHARE and effective < _FEWEST_EFFECTIVE:
                told.append(
                    f"source.splits.{role}: the process '{line.process}' is {table.share(line):.1%} of the "
                    f"yield, but counts as only about {effective:.0f} events without weights in this split "
                    f"of {given}: simulate more of it, or raise the split"
                )
    return told


def _small_simulation(data: CollisionData, table: YieldTable) -> str | None:
    """Say if the error of the expected total is large beside the uncertainty that tests know of.

    A yield that the study gives is no estimate from the simulation: only cross sections have such an error.
    """
    processes, expected = data.source.background.processes, data.study.sizes.expected
    errors = [
        line.error
        for line in table.processes
        if line.process in processes and processes[line.process].cross_section is not None
    ]
    error, known = math.hypot(*errors) / table.expected, data.study.normalisation
    name, allowed, remedy = "Poisson error", 1.0 / math.sqrt(expected), "give a normalisation"
    if known is not None:
        name, allowed, remedy = "normalisation", known, "raise it"
    if error <= _LARGEST_ADDED * allowed:
        return None
    return (
        f"{KEY}: the simulation is too small for the yield: its error is {error:.2%} of the "
        f"{table.expected:.6g} expected events, more than a third of the {name} of {allowed:.2%}: "
        f"simulate {math.ceil((error / allowed / _LARGEST_ADDED) ** 2)} times as many events, or {remedy}"
    )
