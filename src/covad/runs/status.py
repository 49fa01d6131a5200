"""Where a run stands: what `covad status` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from covad.runs.directory import RunDirectory
from covad.runs.sources import open_sources
from covad.study import Collisions, Study
from covad.study.plan import Clips, Entry, bases_to_choose, clips_to_tune, plan, requests
from covad.toys.drawing import PoolOffset, pool_offset
from covad.toys.pools import MANIFEST
from covad.toys.store import Counts


@dataclass(frozen=True)
class EnsembleStatus:
    """One ensemble: requested = done + failed + missing."""

    entry: Entry
    counts: Counts
    offset: PoolOffset

    @property
    def waiting(self) -> bool:
        """For its pools, or for the choice of its clip."""
        return self.entry.ensemble is None

    def plain(self) -> dict[str, Any]:
        ensemble = self.entry.ensemble
        return {
            "test": self.entry.test,
            "configuration": self.entry.configuration.label,
            "identity": None if ensemble is None else ensemble.identity,
            "draw": asdict(self.entry.draw),
            **asdict(self.counts),
            "pool_offset": asdict(self.offset),
        }


@dataclass(frozen=True)
class RunStatus:
    """All ensembles of a run, and what came before them."""

    path: Path
    learning: Sequence[StageProgress]
    clips: Clips
    clips_to_tune: Sequence[str]
    bases_to_choose: Sequence[str]
    ensembles: Sequence[EnsembleStatus]
    corrupt: Sequence[Path]

    def total(self, name: str) -> int:
        return sum(getattr(ensemble.counts, name) for ensemble in self.ensembles)

    @property
    def core_seconds_left(self) -> float | None:
        """From the mean cost of the stored toys of each test; None if a test has none yet."""
        left = 0.0
        for test in {e.entry.test for e in self.ensembles if e.counts.missing}:
            mine = [e.counts for e in self.ensembles if e.entry.test == test]
            stored = sum(c.done + c.failed for c in mine)
            if not stored:
                return None
            left += sum(c.missing for c in mine) * sum(c.seconds for c in mine) / stored
        return left

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run": str(self.path),
            "stages": {
                **{
                    stage.stage: {
                        "done": stage.finished,
                        "parts_done": stage.done,
                        "parts": stage.parts,
                        "note": stage.note,
                    }
                    for stage in self.learning
                },
                "tune": {
                    "done": not (self.clips_to_tune or self.bases_to_choose),
                    "clips": dict(self.clips),
                },
                "toys": {"done": self.total("missing") == 0},
            },
            **{name: self.total(name) for name in ("requested", "done", "failed", "missing", "unconverged")},
            "core_seconds_left": self.core_seconds_left,
            "corrupt_blocks_set_aside": [str(path) for path in self.corrupt],
            "ensembles": [ensemble.plain() for ensemble in self.ensembles],
        }


def run_status(path: Path) -> RunStatus:
    """Read the status of a run; nothing is changed."""
    directory = RunDirectory(path)
    study, clips = directory.study(), directory.clips()
    entries = plan(study, open_sources(study, directory, verify=False), clips)
    known = iter(directory.toys.counts(requests(entries)))
    ensembles = [
        EnsembleStatus(entry, Counts(entry.toys, 0, 0, entry.toys, 0, {}, 0.0), PoolOffset(0.0, 0.0))
        if entry.ensemble is None
        else EnsembleStatus(entry, next(known), pool_offset(entry.ensemble))
        for entry in entries
    ]
    return RunStatus(
        path,
        learning_progress(study, directory),
        clips,
        [configuration.label for configuration in clips_to_tune(study, clips)],
        [configuration.label for configuration in bases_to_choose(study, directory.bases())],
        ensembles,
        directory.toys.corrupt(),
    )


_WIDTH = 120
_COLUMNS = (
    "test",
    "configuration",
    "nu",
    "signal",
    "requested",
    "done",
    "failed",
    "missing",
    "unconverged",
    "pools",
)


def print_status(status: RunStatus) -> None:
    """The table on stdout."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.width = max(console.width, _WIDTH)
    for stage in status.learning:
        note = f" ({stage.note})" if stage.note else ""
        console.print(f"stage {stage.stage}: {stage.done} of {stage.parts} parts done{note}")
    for name in status.clips_to_tune:
        console.print(f"clip of the network, {name}: not chosen yet")
    for name, clip in status.clips.items():
        console.print(f"clip of the network, {name}: W = {clip:g}")
    for name in status.bases_to_choose:
        console.print(f"basis of the convex test, {name}: not chosen yet")
    table = Table(title=f"Toys of {status.path}", title_justify="left", box=SIMPLE)
    for number, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if number > 3 else "left")
    for ensemble in status.ensembles:
        table.add_row(*_cells(ensemble))
    totals = [str(status.total(name)) for name in _COLUMNS[4:9]]
    table.add_section()
    table.add_row("all", "", "", "", *totals, "")
    console.print(table)
    _print_remarks(console, status)


def _cells(status: EnsembleStatus) -> list[str]:
    draw, counts = status.entry.draw, status.counts
    numbers = (counts.requested, counts.done, counts.failed, counts.missing, counts.unconverged)
    return [
        status.entry.test,
        status.entry.configuration.label,
        ", ".join(f"{x:+g}" if x else "0" for x in draw.nu),
        f"{draw.signal} {draw.injected:g}" if draw.signal else "",
        *(str(number) for number in numbers),
        f"{status.offset.share:.2f} sd" if status.offset.share else "",
    ]


def _print_remarks(console: Console, status: RunStatus) -> None:
    for ensemble in status.ensembles:
        for reason, count in ensemble.counts.reasons.items():
            console.print(f"{count} failed ({ensemble.entry.test}): {reason}")
    small = sum(not ensemble.offset.tolerable for ensemble in status.ensembles)
    if small:
        console.print(f"finite pools move t by more than a tenth of its spread in {small} ensembles")
    if status.corrupt:
        console.print(f"{len(status.corrupt)} corrupt blocks were set aside in {status.corrupt[0].parent}")
    if status.total("missing"):
        seconds = status.core_seconds_left
        console.print(
            "time left: not known yet" if seconds is None else f"time left: {seconds:.0f} core-seconds"
        )


@dataclass(frozen=True)
class StageProgress:
    """Parts of a stage that are done; `note` says how far the next one is."""

    stage: str
    done: int
    parts: int
    note: str = ""

    @property
    def finished(self) -> bool:
        return self.done == self.parts


def learning_progress(study: Study, directory: RunDirectory) -> list[StageProgress]:
    """Empty for a study that does not start from collisions."""
    if not isinstance(study.source, Collisions):
        return []
    source = study.source
    models = list(product(source.embeddings, range(source.folds)))
    trained = [directory.encoder(*model).exists() for model in models]
    responses = [
        directory.response(name, fold, order).exists()
        for (name, fold) in models
        for order in sorted({order for embedding, order in study.spaces if embedding == name})
    ]
    pools = [(directory.pools(space) / MANIFEST).exists() for space in study.spaces]
    checks = [
        (directory.path / file).exists()
        for space in study.spaces
        for file in directory.check_files(source, space).values()
    ]
    notes = "; ".join(_training(directory, models, trained, source.training.steps))
    events = int((directory.path / "events.json").exists())
    return [
        StageProgress("events", events, 1, "" if events else f"{_written(directory)} files written"),
        StageProgress("encoder", sum(trained), len(trained), notes),
        StageProgress("response", sum(responses), len(responses)),
        StageProgress("pools", sum(pools), len(pools)),
        StageProgress("checks", sum(checks), len(checks)),
    ]


def _written(directory: RunDirectory) -> int:
    return len(list(directory.events.glob("*.h5")))


def _training(
    directory: RunDirectory, models: list[tuple[str, int]], trained: list[bool], steps: int
) -> Iterator[str]:
    """Where unfinished trainings are, from their metrics."""
    for model, done in zip(models, trained, strict=True):
        metrics = directory.model(*model) / "metrics.jsonl"
        if not done and metrics.exists():
            last = json.loads(metrics.read_text().splitlines()[-1])
            yield f"{model[0]}, fold {model[1]}: step {last['step']} of {steps}"
