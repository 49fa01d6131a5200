"""Where a run stands: stages, toys done, failed and missing, the time left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from covad.embedding.metrics import read_metrics
from covad.errors import FileFormatError
from covad.inference.ranking import PriorClosure
from covad.runs.checks import direction_text, read_ranking
from covad.runs.directory import RunDirectory
from covad.runs.products import LEARNING_STAGES, Products
from covad.runs.smoothing import SmoothedPool, read_smoothing
from covad.runs.sources import open_sources
from covad.runs.tuned import read_bases, read_clips
from covad.settings import Nu
from covad.storage.records import plain
from covad.study import Collisions, Configuration, Study
from covad.study.plan import (
    Clips,
    Entry,
    Sources,
    Space,
    bases_to_choose,
    clips_to_tune,
    fixed_clips,
    plan,
    requests,
    space_label,
    tests_on_bumps,
)
from covad.toys.drawing import PoolOffset, PoolSource, pool_offset
from covad.toys.pools import Cost
from covad.toys.store import Counts


@dataclass(frozen=True)
class StageProgress:
    """Parts of a stage that are done; `remark` says how far the next one is."""

    stage: str
    done: int
    parts: int
    remark: str = ""

    @property
    def finished(self) -> bool:
        return self.done == self.parts


@dataclass(frozen=True)
class EnsembleStatus:
    """One ensemble: requested = done + failed + missing."""

    entry: Entry
    counts: Counts
    offset: PoolOffset

    @property
    def waiting(self) -> bool:
        """Whether its pools, clip or basis are missing."""
        return self.entry.ensemble is None


@dataclass(frozen=True)
class PoolCost:
    """What accept-reject cost a pool of weighted events."""

    space: str
    pool: str
    nu: Nu
    cost: Cost


@dataclass(frozen=True)
class RunStatus:
    """All ensembles of a run, and what came before them."""

    path: Path
    study: Study
    learning: Sequence[StageProgress]
    clips: Clips
    clips_to_tune: Sequence[Configuration]
    bases_to_choose: Sequence[tuple[str, Configuration]]
    ensembles: Sequence[EnsembleStatus]
    corrupt: Sequence[Path]
    #: Toys that the report tells of; None if there is no report.
    reported: int | None
    #: Of the pools whose events had weights.
    costs: Sequence[PoolCost] = ()
    #: How pools with negative weights were smoothed, by the label of their space.
    smoothing: Mapping[str, Sequence[SmoothedPool]] = field(default_factory=dict)
    #: Which nuisances matter, by space, as far as they have been checked.
    rankings: Mapping[Space, PriorClosure] = field(default_factory=dict)

    @property
    def ranking_lines(self) -> list[str]:
        """Say along which direction t is expected to move most, and which nuisances are pruned."""
        lines = []
        for space in self.study.spaces:
            name, found = space_label(space), self.rankings.get(space)
            if self.study.worst_direction:
                told = "toys wait for this stage" if found is None else direction_text(found)
                lines.append(f"{name}: worst direction: {told}")
            if found is not None and found.pruned:
                source = self.study.source
                left_out = isinstance(source, Collisions) and source.response.prune
                told = "left out of the tests" if left_out else "tests could leave out"
                lines.append(f"{name}: {told}, as they matter too little: {', '.join(found.pruned_names)}")
        return lines

    @property
    def stages(self) -> list[StageProgress]:
        """Return all stages that the study has, and the report."""
        parts = len(clips_to_tune(self.study, fixed_clips(self.study))) + len(tests_on_bumps(self.study))
        left = len(self.clips_to_tune) + len(self.bases_to_choose)
        stored = self.total("done") + self.total("failed")
        since = "" if self.reported in (None, stored) else "`covad report` draws it anew"
        return [
            *self.learning,
            StageProgress("tune", parts - left, parts),
            StageProgress("toys", stored, self.total("requested")),
            StageProgress("report", int(self.reported == stored), 1, since),
        ]

    def total(self, name: str) -> int:
        return sum(getattr(ensemble.counts, name) for ensemble in self.ensembles)

    @property
    def core_seconds_left(self) -> float | None:
        """Estimate from the mean cost of the stored toys of each test; None if a test has none yet."""
        left = 0.0
        for test in {e.entry.test for e in self.ensembles if e.counts.missing}:
            mine = [e.counts for e in self.ensembles if e.entry.test == test]
            stored = sum(c.done + c.failed for c in mine)
            if not stored:
                return None
            left += sum(c.missing for c in mine) * sum(c.seconds for c in mine) / stored
        return left

    def plain(self) -> dict[str, Any]:
        """Return the status for JSON; configurations by their slugs."""
        stages: dict[str, Any] = {
            stage.stage: {
                "done": stage.finished,
                "parts_done": stage.done,
                "parts": stage.parts,
                "remark": stage.remark,
            }
            for stage in self.stages
        }
        stages["tune"]["clips"] = dict(self.clips)
        ensembles = [
            {
                "test": e.entry.test,
                "configuration": e.entry.configuration.slug,
                "identity": None if e.entry.ensemble is None else e.entry.ensemble.identity,
                "draw": asdict(e.entry.draw),
                **asdict(e.counts),
                "pool_offset": asdict(e.offset),
            }
            for e in self.ensembles
        ]
        costs = [
            {"space": c.space, "pool": c.pool, "nu": c.nu, **asdict(c.cost), "share": c.cost.share}
            for c in self.costs
        ]
        smoothing = {space: [plain(pool) for pool in pools] for space, pools in self.smoothing.items()}
        rankings = {space_label(space): plain(found) for space, found in self.rankings.items()}
        return {
            "run": str(self.path),
            "stages": stages,
            **{name: self.total(name) for name in ("requested", "done", "failed", "missing", "unconverged")},
            "core_seconds_left": self.core_seconds_left,
            "corrupt_blocks_set_aside": [str(path) for path in self.corrupt],
            "ensembles": ensembles,
            **({"accept_reject": costs} if costs else {}),
            **({"smoothing": smoothing} if smoothing else {}),
            **({"closure_over_prior": rankings} if rankings else {}),
        }


def run_status(path: Path) -> RunStatus:
    """Read the status of a run; nothing is changed."""
    directory = RunDirectory(path)
    study = directory.study()
    sources, products = open_sources(study, directory, verify=False), Products(study, directory)
    clips = read_clips(products, sources)
    entries = plan(study, sources, clips, worst=products.worst)
    known = iter(directory.toys.counts(requests(entries)))
    ensembles = [
        EnsembleStatus(entry, Counts(entry.toys, 0, 0, entry.toys, 0, {}, 0.0), PoolOffset(0.0, 0.0))
        if entry.ensemble is None
        else EnsembleStatus(entry, next(known), pool_offset(entry.ensemble))
        for entry in entries
    ]
    return RunStatus(
        path,
        study,
        learning_progress(study, directory),
        clips,
        clips_to_tune(study, clips),
        bases_to_choose(study, read_bases(products, sources)),
        ensembles,
        directory.toys.corrupt(),
        _reported(directory),
        pool_costs(sources),
        {
            space_label(space): smoothed
            for space in sources
            if isinstance(study.source, Collisions) and (smoothed := read_smoothing(products.pools(space)))
        },
        _rankings(products),
    )


def _rankings(products: Products) -> dict[Space, PriorClosure]:
    """Return what the checks say on two nuisances or more, for the fold of the toys."""
    study = products.study
    if not isinstance(study.source, Collisions) or len(study.source.nuisances) < 2:
        return {}
    found = {where: read_ranking(products.checks(where, study.source.fold)) for where in study.spaces}
    return {where: ranking for where, ranking in found.items() if ranking is not None}


def pool_costs(sources: Sources) -> list[PoolCost]:
    """Return what accept-reject cost in every space; nothing where events have no weights."""
    spaces: dict[PoolSource, list[str]] = {}
    for space, source in sources.items():
        if isinstance(source, PoolSource):
            spaces.setdefault(source, []).append(space_label(space))
    return [
        PoolCost("; ".join(names), pool, nu, cost)
        for source, names in spaces.items()
        for pool, nu, cost in source.costs()
    ]


def _reported(directory: RunDirectory) -> int | None:
    """Return the toys that the report was drawn from; none if it is not there or its summary is damaged."""
    if not (directory.path / "report.html").exists():
        return None
    try:
        toys = (directory.read("summary.json") or {}).get("toys", {})
    except FileFormatError:
        return None
    return int(toys.get("done", 0)) + int(toys.get("failed", 0))


def learning_progress(study: Study, directory: RunDirectory) -> list[StageProgress]:
    """Return the stages from events to checks; none for a study that does not start from collisions."""
    if not isinstance(study.source, Collisions):
        return []
    source, products = study.source, Products(study, directory)
    made = {stage: [part.made for part in products.of_stage(stage, {})] for stage in LEARNING_STAGES}
    events = all(made.pop("events"))
    written = "" if events else f"{len(list(directory.events.glob('*.h5')))} files written"
    trainings = []
    for (name, fold), is_trained in zip(products.models, made["spaces"], strict=True):
        if not is_trained and (history := read_metrics(directory.model(name, fold) / "metrics.jsonl")):
            part = f"{name}, fold {fold}" if source.folds > 1 else name
            trainings.append(f"{part}: step {history[-1].step} of {source.training.steps}")
    remarks = {"spaces": "; ".join(trainings)}
    return [
        StageProgress("events", int(events), 1, written),
        *(StageProgress(stage, sum(x), len(x), remarks.get(stage, "")) for stage, x in made.items()),
    ]
