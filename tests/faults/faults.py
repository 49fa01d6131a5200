"""Mistakes that people make and inputs that an attacker would try, each with what has to be said of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from faults.directories import release, run_directories
from faults.fault import Fault
from faults.functions import functions
from faults.lanes import Lane, in_lanes
from faults.options import options
from faults.outcome import Outcome, covad_command, run_child
from faults.samples import event_files
from faults.studies import texts, values
from faults.world import World


@dataclass(frozen=True)
class Result:
    """How a fault ended."""

    fault: Fault
    outcome: Outcome

    @property
    def ok(self) -> bool:
        said = " ".join(self.outcome.said.split())
        ended = not self.outcome.clean and self.outcome.code == self.fault.code
        return ended and re.search(self.fault.says, said, re.IGNORECASE) is not None

    def __str__(self) -> str:
        if self.ok:
            return f"OK      {self.fault.name}"
        how = self.outcome.clean or f"exit code {self.outcome.code}"
        last = self.outcome.said.strip().rpartition("\n")[2][-250:]
        return f"not OK  {self.fault.name}: {how}, expected {self.fault.code} and '{self.fault.says}': {last}"


def all_faults() -> list[Fault]:
    """Return every named fault."""
    groups = (options, values, texts, functions, event_files, run_directories)
    return [fault for group in groups for fault in group()]


def run_faults(lanes: Sequence[Lane], match: str = "") -> list[Result]:
    """Try all named faults, and print a line of each."""
    faults = all_faults()

    def attempt(world: World, number: int) -> tuple[int, Outcome]:
        return number, _outcome(faults[number], world)

    results = []
    wanted = [number for number, fault in enumerate(faults) if re.search(match, fault.name)]
    for number, outcome in in_lanes(lanes, attempt, wanted):
        results.append(Result(faults[number], outcome))
        print(results[-1], flush=True)
    print(f"{len(results)} named faults, {sum(not result.ok for result in results)} not OK", flush=True)
    return results


def _outcome(fault: Fault, world: World) -> Outcome:
    """Run the command of a fault in a world of its own."""
    places = {"folder": world.path, "run": world.run, "study": world.study, "observed": world.observed}

    def action() -> None:
        if fault.prepare:
            fault.prepare(world)
        covad_command(*(word.format(**places) for word in fault.command))

    try:
        return run_child(action, world.path, fault.seconds)
    finally:
        release(world.path)
