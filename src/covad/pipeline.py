"""The stages of a study in order, in a run directory that can be left and taken up at any moment.

study.json     the study that the directory belongs to
convex.json    the features of the convex test, chosen once
clip.json      W per treatment, with the scan that led to it
toys/          blocks of pseudo-experiments
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.atomic import replacing, writing
from covad.campaign import (
    clips_to_tune,
    convex_settings,
    fixed_clips,
    network_settings,
    null_draw,
    open_source,
    plan,
    requests,
)
from covad.errors import FileFormatError, PlanError, StudyError
from covad.nplm.dataset import Float64
from covad.study import Study, changed_key, parse_study
from covad.toys.dask_run import BatchCluster, DaskWorkers
from covad.toys.plan import Ensemble, Request, Shard, Source, Stream, Treatment
from covad.toys.run import Backend, RunSummary, run_toys, stoppable
from covad.toys.store import ToyStore
from covad.toys.workers import LocalWorkers

log = logging.getLogger(__name__)

STAGES = ("clip", "toys")
#: Digits of W that are kept.
CLIP_DIGITS = 4


@dataclass(frozen=True)
class RunDirectory:
    """Where a run keeps what it has."""

    path: Path

    @property
    def toys(self) -> ToyStore:
        return ToyStore(self.path / "toys")

    def claim(self, study: Study, source: Source) -> None:
        """Make the directory this study's; refuse if it is another's."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        before = self.read("study.json")
        now = {"study": study.plain(), "source": source.fingerprint}
        if before is not None and (change := _change(before, now)):
            raise StudyError(f"{self.path} belongs to another study: {change}; use another directory")
        if before != now:
            self.write("study.json", now)

    def study(self) -> Study:
        content = self.read("study.json")
        if content is None:
            raise FileFormatError(f"{self.path}: is not a run directory, it has no study.json")
        return parse_study(content.get("study"), str(self.path / "study.json"))

    def clips(self) -> dict[Treatment, float]:
        """W per treatment, given or tuned."""
        tuned = {Treatment(name): float(choice["clip"]) for name, choice in self._tuned().items()}
        return tuned | fixed_clips(self.study())

    def keep_clip(self, treatment: Treatment, choice: dict[str, Any]) -> None:
        self.write("clip.json", self._tuned() | {treatment.value: choice})

    def _tuned(self) -> dict[str, Any]:
        return self.read("clip.json") or {}

    def read(self, name: str) -> Any:
        """What a stage left behind, None if nothing."""
        path = self.path / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as failure:
            raise FileFormatError(f"{path}: cannot be read ({failure})") from failure

    def write(self, name: str, content: Any) -> None:
        path = self.path / name
        with replacing(path) as temporary, writing(path):
            temporary.write_text(json.dumps(content, indent=1) + "\n")


def choose_workers(study: Study, number: int | None, address: str | None) -> LocalWorkers | DaskWorkers:
    """A Dask scheduler or workers here if the user names them; else the study's cluster, or all cores."""
    if address is not None:
        return DaskWorkers(address)
    if study.cluster is not None and number is None:
        return DaskWorkers(BatchCluster(**study.cluster.model_dump()))
    return LocalWorkers(number or len(os.sched_getaffinity(0)))


def _change(before: Any, now: dict[str, Any]) -> str | None:
    try:
        return changed_key(before["study"], now["study"]) or changed_key(
            {"source": before["source"]}, {"source": now["source"]}
        )
    except (KeyError, TypeError, AttributeError) as failure:
        raise FileFormatError(f"study.json of the run cannot be understood ({failure!r})") from failure


def run_study(
    study: Study, out: Path, backend: Backend, shard: Shard | None = None, until: str = STAGES[-1]
) -> RunSummary | None:
    """Do what is missing of the study, up to a stage; None if that is before the toys."""
    if until not in STAGES:
        raise PlanError(f"there is no stage '{until}' (there are {', '.join(STAGES)})")
    with stoppable():
        source = open_source(study)
        directory = RunDirectory(out)
        directory.claim(study, source)
        _choose_clips(study, source, directory, backend, shard)
        if until == "clip":
            return None
        model = _convex_model(study, source, directory)
        wanted = requests(study, plan(study, source, directory.clips(), model))
        return run_toys(wanted, directory.toys, backend, shard)


def _choose_clips(
    study: Study, source: Source, directory: RunDirectory, backend: Backend, shard: Shard | None
) -> None:
    for treatment in clips_to_tune(study, directory.clips()):
        if shard is not None and shard.total > 1:
            raise PlanError("the clip has to be tuned before shards are run: `covad run ... --until clip`")
        _tune_clip(study, source, directory, treatment, backend)


def _convex_model(study: Study, source: Source, directory: RunDirectory) -> str | None:
    """Features and ridge of the convex test: chosen by the first run, read by the others."""
    settings = convex_settings(study)
    if settings is None:
        return None
    stored = directory.read("convex.json")
    if stored is None:
        stored = json.loads(settings.chosen(source).model or "")
        directory.write("convex.json", stored)
    return json.dumps(stored)


def _tune_clip(
    study: Study, source: Source, directory: RunDirectory, treatment: Treatment, backend: Backend
) -> None:
    """Choose W with toys of their own stream; those are stored too, so that a killed search goes on."""
    from covad.inference.clip import choose_clip  # scipy.stats takes its time, and only this needs it

    draw = null_draw(study, treatment)

    def ensemble(clip: float) -> Ensemble:
        return Ensemble(draw, network_settings(study, source, clip), source, study.seed, Stream.SCAN)

    def toys(clip: float, indices: NDArray[np.intp]) -> Float64:
        request = Request(ensemble(clip), int(indices.max()) + 1)
        run_toys([request], directory.toys, backend)
        found = directory.toys.load(request)
        if not found.done:
            raise PlanError(f"all toys of the search for the clip failed: {found.toys[0].reason}")
        return found.t_by_index()[indices]

    dof = ensemble(1.0).test.degrees_of_freedom
    choice = choose_clip(toys, dof, seed=study.seed)
    clip = round(choice.clip, CLIP_DIGITS)
    log.info("clip of the network, nuisances %s: W = %g +- %.2g", treatment, clip, choice.clip_error)
    directory.keep_clip(treatment, asdict(choice) | {"clip": clip})
