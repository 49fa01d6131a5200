"""Damaged files: a flipped bit, a lost tail, a zeroed page, a foreign file, under every command that reads.

A command that meets damage refuses it in one sentence, or gives the answer of the undamaged world. A run that
makes a damaged file anew has the results of the undamaged one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from faults.lanes import Lane, in_lanes
from faults.outcome import COMMANDS, Outcome, outcome
from faults.world import World

SEED = 15
PAGE = 4096
#: Parts of a summary that count toys: those of a space that is not there are missing.
COUNTS = {"toys", "ensembles", "toy_versions"}
#: Kinds of damage beside the flipped bit.
ROUGH = ("truncated", "empty", "zeroed page", "foreign", "swapped", "deleted")


@dataclass(frozen=True)
class Kind:
    """Files of one kind, and how many bits are flipped in them under each command.

    `rough` commands also meet each of the other kinds of damage, once. A run may have no file of a kind that
    is not there `always`.
    """

    name: str
    pattern: str
    flips: Mapping[str, int]
    rough: tuple[str, ...] = ()
    always: bool = True


#: The first kind that fits a file is its kind.
KINDS = (
    Kind("study.json", "run/study.json",
         {"test": 20, "run": 20, "report": 6, "status": 12, "inspect": 6, "export": 4, "python": 12},
         ("test", "run", "status")),
    Kind("manifest.json", "run/manifest.json", {"test": 4, "run": 12, "report": 8, "status": 8, "python": 12},
         ("run", "python")),
    Kind("events.json", "run/events.json", {"test": 25, "run": 25, "report": 3, "status": 8, "export": 3},
         ("test", "run")),
    Kind("event files", "run/events/*.h5",
         {"test": 60, "run": 12, "export": 8, "status": 5, "inspect events": 50}, ("test", "run")),
    Kind("events, further files", "run/events/*", {"test": 10, "run": 10}, ("test", "run"), always=False),
    Kind("encoder", "run/models/*/encoder.safetensors",
         {"test": 120, "test quadratic": 40, "run": 12, "export": 15, "status": 5, "report": 3, "python": 5},
         ("test", "run", "export")),
    Kind("response", "run/models/*/response_*.safetensors",
         {"test": 90, "test quadratic": 60, "run": 12, "export": 15, "status": 5, "report": 3, "python": 5},
         ("test", "run", "export")),
    Kind("checkpoint", "run/models/*/checkpoint.safetensors", {"test": 4, "run": 12, "status": 4}, ("run",)),
    Kind("metrics", "run/models/*/metrics.jsonl", {"run": 10, "report": 4, "status": 8, "python": 10},
         ("run", "python")),
    Kind("embedded", "run/embedded/*", {"test": 4, "run": 10, "status": 4}, ("run",)),
    Kind("pool arrays", "run/pools/*.npy",
         {"test": 140, "test quadratic": 70, "run": 20, "report": 4, "python": 10, "status": 5},
         ("test", "test quadratic", "run")),
    Kind("pool manifests", "run/pools/*/manifest.json",
         {"test": 40, "run": 10, "report": 4, "status": 15, "python": 15, "export": 3},
         ("test", "run", "python")),
    Kind("scales", "run/pools/*/scale.json", {"test": 60, "run": 8, "export": 12, "status": 3},
         ("test", "run", "export")),
    Kind("checks", "run/checks/*.json", {"test": 5, "run": 12, "report": 16, "status": 5, "python": 60},
         ("run", "report", "python")),
    Kind("basis", "run/basis*", {"test": 60, "run": 10, "report": 6, "status": 10, "python": 20},
         ("test", "run", "python")),
    Kind("clip", "run/clip*", {"test": 60, "run": 10, "report": 8, "status": 10, "python": 40},
         ("test", "run", "python")),
    Kind("toys", "run/toys/*.parquet", {"test": 60, "run": 20, "report": 8, "status": 30, "python": 50},
         ("test", "run", "python", "status")),
    Kind("toys, descriptions", "run/toys/*.json", {"test": 5, "run": 8, "python": 8, "status": 5}, ("run",)),
    Kind("observed answers", "run/observed/*.json", {"report": 25, "test": 5, "run": 4, "python": 5},
         ("report",)),
    Kind("summary.json", "run/summary.json", {"report": 15, "python": 60, "test": 4, "run": 4},
         ("report", "python")),
    Kind("report", "run/report*", {"report": 20, "test": 3, "status": 3}, ("report",)),
    Kind("notes", "run/made/*",
         {"test": 60, "run": 20, "report": 10, "status": 20, "python": 40, "export": 10},
         ("test", "run", "python")),
    Kind("exported files", "run/export/*", {"export": 2, "test": 3, "run": 3}, ("test",)),
    Kind("user's module", "shifts.py", {"test": 30, "test quadratic": 10, "run": 30, "export": 4},
         ("test", "run")),
    Kind("study file", "study.yaml", {"run": 40}, ("run",)),
    Kind("observed file", "observed.h5", {"test": 90, "inspect observed": 60}, ("test", "inspect observed")),
    Kind("other", "*", {"test": 10, "run": 10, "report": 3, "python": 10, "status": 5}, ("test", "run"),
         always=False),
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One damaged file under one command. `other` is the file that a foreign content comes from."""

    number: int
    kind: str
    command: str
    damage: str
    file: Path
    other: Path | None = None

    def __str__(self) -> str:
        other = f" with {self.other}" if self.other else ""
        return f"{self.number}: {self.file} {self.damage}{other}, covad {self.command}"


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: refused, same or told are as they should be."""

    fault: Fault
    what: str
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.what in {"refused", "same", "told"}


@dataclass
class Tally:
    """Verdicts by kind of file."""

    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def bad(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.ok]

    @property
    def n_flips(self) -> int:
        return sum(verdict.fault.damage.startswith("bit") for verdict in self.verdicts)

    def lines(self) -> Iterator[str]:
        """Yield the table."""
        yield f"{'kind of file':24}{'faults':>8}{'refused':>9}{'same':>7}{'told':>7}{'not OK':>8}"
        for kind in dict.fromkeys(kind.name for kind in KINDS):
            mine = [verdict for verdict in self.verdicts if verdict.fault.kind == kind]
            found = Counter(verdict.what for verdict in mine)
            bad = sum(not verdict.ok for verdict in mine)
            if mine:
                counts = f"{found['refused']:9}{found['same']:7}{found['told']:7}{bad:8}"
                yield f"{kind:24}{len(mine):8}{counts}"
        yield f"{len(self.verdicts)} faults, {self.n_flips} of them flips; {len(self.bad)} not OK"


def kind_of(file: Path) -> Kind:
    """Return the kind of a file of the world."""
    return next(kind for kind in KINDS if fnmatchcase(str(file), kind.pattern))


def all_faults(world: World, share: float = 1.0) -> list[Fault]:
    """Return the faults of a world, the same ones every time; `share` takes fewer flips."""
    by_kind: dict[str, list[Path]] = {}
    for file in world.files():
        if "__pycache__" not in file.parts:
            by_kind.setdefault(kind_of(file).name, []).append(file)
    rng = np.random.default_rng(SEED)
    faults: list[Fault] = []

    def add(kind: Kind, command: str, damage: str, other: Path | None = None) -> None:
        file = files[int(rng.integers(len(files)))]
        if damage == "bit":
            size = (world.path / file).stat().st_size
            damage = f"bit {int(rng.integers(8))} of byte {int(rng.integers(size)) if size else 0} flipped"
        if damage in {"foreign", "swapped"}:
            alike = [path for path in files if path != file] or [
                path for path in world.files() if path.suffix == file.suffix and path != file
            ]
            if not alike:
                return
            same_name = [path for path in alike if path.name == file.name]
            choice = same_name or alike
            other = choice[int(rng.integers(len(choice)))]
        faults.append(Fault(len(faults), kind.name, command, damage, file, other))

    for kind in KINDS:
        if files := by_kind.get(kind.name, []):
            for command, number in kind.flips.items():
                for _ in range(max(1, round(share * number))):
                    add(kind, command, "bit")
            for command in kind.rough:
                for damage in ROUGH:
                    add(kind, command, damage)
    return faults


def inflict(fault: Fault, world: World) -> None:
    """Damage the file of a private world; every second time its size and its times tell nothing."""
    file = world.path / fault.file
    before, content = file.stat(), bytearray(file.read_bytes())
    file.unlink()  # it may be a link to the file of the undamaged world
    rng = np.random.default_rng([SEED, fault.number])
    match fault.damage.split():
        case ["bit", bit, "of", "byte", position, "flipped"]:
            content[int(position)] ^= 1 << int(bit)
        case ["truncated"]:
            content = content[: int(rng.integers(len(content)))]
        case ["empty"]:
            content = bytearray()
        case ["zeroed", "page"]:
            start = int(rng.integers(max(1, len(content) // PAGE))) * PAGE
            content[start : start + PAGE] = bytes(len(content[start : start + PAGE]))
        case ["foreign"] if fault.other:
            content = bytearray((world.path / fault.other).read_bytes())
        case ["swapped"] if fault.other:
            other = world.path / fault.other
            theirs = other.read_bytes()
            other.unlink()
            other.write_bytes(content)
            content = bytearray(theirs)
        case ["deleted"]:
            return
    file.write_bytes(content)
    if fault.number % 2:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def judge(fault: Fault, world: World, undamaged: Mapping[str, Outcome]) -> Verdict:
    """Run the command of a fault in its damaged world, and say whether it ended as it should."""
    found = outcome(fault.command, world)
    if found.clean:
        return Verdict(fault, found.clean, found.said.strip()[-300:])
    if found.code == 2:
        last = found.said.strip().rpartition("\n")[2]
        return Verdict(fault, "refused" if last.startswith("covad: ") else "no sentence", last[:200])
    if fault.command == "run":
        return _judge_resumed(fault, world, undamaged)
    if found.answer == undamaged[fault.command].answer:
        return Verdict(fault, "same")
    if _told(fault, found, undamaged[fault.command].answer, world):
        return Verdict(fault, "told")
    return Verdict(fault, "another answer", difference(undamaged[fault.command].answer, found.answer))


def _judge_resumed(fault: Fault, world: World, undamaged: Mapping[str, Outcome]) -> Verdict:
    """Compare what a run has after `covad run` with what it should have."""
    if fault.kind == "study file" and not _same_study(world):
        return Verdict(fault, "told")  # another study was asked for, and is what the run now says it has
    for command in ("test", "python"):
        after = outcome(command, world)
        if after.answer != undamaged[command].answer:
            detail = (
                after.said.strip()[-200:]
                if after.code
                else difference(undamaged[command].answer, after.answer)
            )
            return Verdict(fault, f"another answer of {command} after the run", detail)
    return Verdict(fault, "same")


def _same_study(world: World) -> bool:
    from faults.world import STUDY

    from covad.study import parse_study, read_study

    plain = [study.plain() for study in (read_study(world.study), parse_study(STUDY, "here"))]
    for study in plain:
        study["source"].pop("folder")
    return plain[0] == plain[1]


def _told(fault: Fault, found: Outcome, undamaged: Any, world: World) -> bool:
    """Say whether another answer is the right one, and says itself what it is an answer to.

    Toys that are gone are counted as missing by every command that makes do with fewer. `status` and
    `inspect` say which parts of a run are there. A summary leaves out what is not made, and counts its toys
    as missing. An observed file that differs is another file: nothing but its own digest knows, which the
    answer has to name; none of its events may be lost. `inspect` of a file says what is in it.
    """
    if fault.kind == "observed file" and fault.command == "test":
        digest = hashlib.sha256((world.path / fault.file).read_bytes()).hexdigest()
        whole = all(found.answer[key] == undamaged[key] for key in ("n_file", "n_selected"))
        return bool(found.answer["sha256"] == digest and whole)
    if fault.command.startswith("inspect ") and fault.damage in {"foreign", "swapped"}:
        return True
    if fault.command in {"status", "inspect"}:
        return fault.kind == "toys" or fault.damage == "deleted"
    if fault.command in {"report", "python"} and fault.kind == "toys":
        ensembles = [found.answer["summary"]["toys"], *found.answer.get("toys", {}).values()]
        return any(toys["missing"] > 0 for toys in ensembles)
    gone = fault.damage == "deleted" or fault.kind == "notes"
    if fault.command in {"report", "python"} and gone:
        some, whole = (
            {key: value for key, value in answer["summary"].items() if key not in COUNTS}
            for answer in (found.answer, undamaged)
        )
        counted = found.answer["summary"]["toys"]["missing"] > 0
        same_counts = found.answer["summary"]["toys"] == undamaged["summary"]["toys"]
        return part_of(some, whole) and (counted or same_counts)
    return False


def part_of(some: object, whole: object) -> bool:
    """Return whether JSON data lacks parts of other data and is the same in all others."""
    if isinstance(some, dict) and isinstance(whole, dict):
        return all(key in whole and part_of(value, whole[key]) for key, value in some.items())
    if isinstance(some, list) and isinstance(whole, list):
        return all(any(part_of(one, other) for other in whole) for one in some)
    return some is None or some == whole


def difference(before: object, after: object, where: str = "") -> str:
    """Return the first place where two pieces of JSON data differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if before.get(key) != after.get(key):
                return difference(before.get(key), after.get(key), f"{where}.{key}")
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                return difference(old, new, f"{where}[{number}]")
    return f"{where}: {str(before)[:80]} -> {str(after)[:80]}"


def undamaged_outcomes(lane: Lane) -> dict[str, Outcome]:
    """Return what every command answers in the undamaged world."""
    found = {command: outcome(command, lane.fresh()) for command in COMMANDS}
    for command, ended in found.items():
        if ended.code != 0:
            raise RuntimeError(f"covad {command} fails in the undamaged world: {ended.said}")
    return found


def run_flips(lanes: Sequence[Lane], share: float = 1.0, match: str = "") -> Tally:
    """Try all faults in random order; the undamaged world has to stay as it is."""
    digests = [_digests(lane.master) for lane in lanes]
    undamaged = undamaged_outcomes(lanes[0])
    faults = [fault for fault in all_faults(lanes[0].master, share) if re.search(match, fault.kind)]

    def damage(world: World, number: int) -> Verdict:
        inflict(faults[number], world)
        return judge(faults[number], world, undamaged)

    tally = Tally()
    shuffled = np.random.default_rng(SEED).permutation(len(faults)).tolist()
    for verdict in in_lanes(lanes, damage, shuffled):
        tally.verdicts.append(verdict)
        if not verdict.ok:
            print(f"not OK  {verdict.what}: {verdict.fault}  {verdict.detail}", flush=True)
        if len(tally.verdicts) % 100 == 0:
            print(f"{len(tally.verdicts)} of {len(faults)} faults, {len(tally.bad)} not OK", flush=True)
    for line in tally.lines():
        print(line, flush=True)
    if [_digests(lane.master) for lane in lanes] != digests:
        raise RuntimeError("a command has written into a file instead of replacing it")
    return tally


def _digests(world: World) -> dict[Path, str]:
    return {file: hashlib.sha256((world.path / file).read_bytes()).hexdigest() for file in world.files()}
