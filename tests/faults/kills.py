"""kill -9 at random moments: a study that is killed a hundred times ends as one that is left alone.

Commands are real processes. Either the whole group is killed, or the parent alone: its workers have to end by
themselves, while the next command may be at work already.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from faults.flips import difference
from faults.outcome import busy, timeless
from faults.world import COVAD, World, make_inputs

KILLS = 100
SEED = 9
#: When a command is killed, at least and at most, in units of the time that it takes undisturbed. A run goes
#: on where it was, so that it ends some time; a report is drawn from the start.
PATIENCE = {"run": (0.02, 0.3), "report": (0.02, 1.5)}
#: Seconds after which workers without a parent have to be gone; where many processes share a core, so much
#: the longer: a worker that is still importing does not know its parent yet.
ORPHANS_SECONDS = 10.0


@dataclass
class Record:
    """What was killed, by stage, and what went wrong."""

    kills: Counter[str] = field(default_factory=Counter)
    whole_groups: int = 0
    finished: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = ", ".join(f"{stage} {number}" for stage, number in self.kills.items())
        return (
            f"{self.kills.total()} kills ({where}; {self.whole_groups} of them of the whole group), "
            f"{self.finished} studies finished, {len(self.wrong)} not OK"
        )


def run_kills(folder: Path, kills: int = KILLS) -> Record:
    """Kill the commands of one study until all kills are spent; compare every end with the undisturbed."""
    world = make_inputs(folder)
    commands = {
        "run": [*COVAD, "run", str(world.study), "--out", str(world.run), "--workers", "2"],
        "report": [*COVAD, "report", str(world.run)],
    }
    seconds = {}
    for name, words in commands.items():
        began = time.monotonic()
        subprocess.run(words, check=True, capture_output=True)
        seconds[name] = time.monotonic() - began
    told = ", ".join(f"{name} {duration:.0f} s" for name, duration in seconds.items())
    print(f"undisturbed: {told}", flush=True)
    undisturbed = result(world)
    record, rng = Record(), np.random.default_rng(SEED)
    orphans: list[tuple[int, float]] = []
    while record.kills.total() < kills:
        shutil.rmtree(world.run, ignore_errors=True)
        for name, words in commands.items():
            ended = False
            while not ended:
                spent = record.kills.total() >= kills
                patience = np.inf if spent else seconds[name] * rng.uniform(*PATIENCE[name])
                ended = _ends(words, patience, bool(rng.integers(2)), record, orphans, world)
        record.finished += 1
        if (found := result(world)) != undisturbed:
            record.wrong.append(f"another result: {difference(undisturbed, found)}")
        shutil.rmtree(world.run)
        print(record, flush=True)
    for line in record.wrong:
        print(f"not OK  {line}", flush=True)
    return record


def _ends(
    words: list[str],
    patience: float,
    group: bool,
    record: Record,
    orphans: list[tuple[int, float]],
    world: World,
) -> bool:
    """Start a command; return True if it ended by itself within the patience, False if it was killed."""
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _, said = process.communicate(timeout=None if np.isinf(patience) else patience)
    except subprocess.TimeoutExpired:
        stage = "report" if "report" in words else stage_of(world)
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()
        record.kills[stage] += 1
        record.whole_groups += group
        orphans.append((process.pid, time.monotonic()))
        ended = False
    else:
        ended = True
        if process.returncode != 0:
            record.wrong.append(f"exit code {process.returncode}: {said.decode().strip()[-300:]}")
            if len(record.wrong) > 3:
                raise RuntimeError(f"no way to go on: {record.wrong[-1]}")
            ended = False
    for session, when in list(orphans):
        if not _alive(session):
            orphans.remove((session, when))
        elif time.monotonic() - when > ORPHANS_SECONDS * busy():
            record.wrong.append(f"a worker lives on after its parent was killed, in session {session}")
            orphans.remove((session, when))
            with suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)
    return ended


def _alive(session: int) -> bool:
    """Return whether a process of this session lives."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                return True
    return False


def stage_of(world: World) -> str:
    """Return the stage that a run is in, by what it has."""
    run = world.run
    marks = {
        "toys": run / "clip" / "covariant-profiled-quadratic.json",
        "tune": run / "checks" / "covariant_quadratic.json",
        "checks": run / "pools" / "covariant_quadratic" / "manifest.json",
        "pools": run / "models" / "covariant" / "fold_0" / "response_2.safetensors",
        "response": run / "models" / "covariant" / "fold_0" / "encoder.safetensors",
        "spaces": run / "events.json",
        "events": run / "study.json",
    }
    for stage, mark in marks.items():
        if mark.exists():
            return stage
    return "start"


def result(world: World) -> dict[str, Any]:
    """Return the summary without times, and the tables of the report but that of the times of toys."""
    tables = sorted((world.run / "report" / "tables").glob("*.csv"))
    return {
        "summary": timeless(json.loads((world.run / "summary.json").read_text())),
        "tables": {table.name: table.read_text() for table in tables if table.name != "toys.csv"},
        "page": (world.run / "report.html").exists(),
    }
