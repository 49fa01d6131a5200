"""The stages of a study in order. Each does what is missing and nothing else."""

from __future__ import annotations

from pathlib import Path

from covad.campaign import Sources, background_first, clips_to_tune, models_to_choose, plan, requests
from covad.errors import PlanError
from covad.parallel import cores
from covad.pipeline.clip import choose_clips
from covad.pipeline.directory import RunDirectory
from covad.pipeline.features import choose_features
from covad.pipeline.manifest import timed
from covad.pipeline.progress import learning_progress
from covad.study import Collisions, LatentWorld, PoolDirectory, Study
from covad.toys.dask_run import BatchCluster, DaskWorkers
from covad.toys.draw import LatentSource, PoolSource
from covad.toys.plan import Shard
from covad.toys.pools import MANIFEST
from covad.toys.run import Backend, RunSummary, run_toys, stoppable
from covad.toys.workers import LocalWorkers

#: From events to the spaces that toys are drawn in; only for studies that start from collisions.
LEARNING_STAGES = ("events", "encoder", "response", "pools", "checks")
STAGES = (*LEARNING_STAGES, "clip", "toys")


def choose_workers(study: Study, number: int | None, address: str | None) -> LocalWorkers | DaskWorkers:
    """A Dask scheduler or workers here if the user names them; else the study's cluster, or all cores."""
    if address is not None:
        return DaskWorkers(address)
    if study.cluster is not None and number is None:
        return DaskWorkers(BatchCluster(**study.cluster.model_dump()))
    return LocalWorkers(number or cores())


def run_study(
    study: Study,
    out: Path,
    backend: Backend,
    shard: Shard | None = None,
    until: str = STAGES[-1],
    workers: int | None = None,
) -> RunSummary | None:
    """Do what is missing of the study, up to a stage; None if that is before the toys."""
    if until not in STAGES:
        raise PlanError(f"there is no stage '{until}' (there are {', '.join(STAGES)})")
    directory = RunDirectory(out)
    with stoppable():
        if isinstance(study.source, Collisions):
            _refuse_shard_before_learning(study, directory, shard)
            if not _learn(study, directory, until, workers or cores()):
                return None
        else:
            directory.claim(study, _given_source(study).fingerprint)
            if until in LEARNING_STAGES:
                return None
        sources = open_sources(study, directory)
        _refuse_shard_before_tuning(study, directory, shard)
        with timed(directory, "clip"):
            choose_features(study, sources, directory)
            choose_clips(study, sources, directory, backend)
        if until != "toys":
            return None
        entries = plan(study, sources, directory.clips(), directory.convex_models())
        wanted = requests(background_first(entries))
        with timed(directory, "toys"):
            return run_toys(wanted, directory.toys, backend, shard)


def _refuse_shard_before_learning(study: Study, directory: RunDirectory, shard: Shard | None) -> None:
    """Many jobs that simulate and train the same would overwrite each other."""
    if _is_part(shard) and not all(stage.finished for stage in learning_progress(study, directory)):
        raise PlanError("events are embedded before shards are run: `covad run ... --until clip` comes first")


def _refuse_shard_before_tuning(study: Study, directory: RunDirectory, shard: Shard | None) -> None:
    """So would many jobs that tune the tests."""
    if not _is_part(shard):
        return
    first = "before shards are run: `covad run ... --until clip`"
    if clips_to_tune(study, directory.clips()):
        raise PlanError(f"the clip has to be tuned {first}")
    if models_to_choose(study, directory.convex_models()):
        raise PlanError(f"the features of the convex test have to be chosen {first}")


def _is_part(shard: Shard | None) -> bool:
    return shard is not None and shard.total > 1


def _learn(study: Study, directory: RunDirectory, until: str, workers: int) -> bool:
    """The learning stages; False if `until` is one of them."""
    # torch and the simulators take seconds to import, and studies without events do not need them
    from covad.pipeline import checks, collisions, embedded, models, rehearsal

    data = collisions.CollisionData.of(study, directory)
    collisions.check_collisions(data)
    rehearsal.rehearse(data)
    directory.claim(study, collisions.users_code(data))
    tasks = (
        collisions.simulate_missing,
        models.train_missing,
        models.fit_missing,
        embedded.embed_missing,
        checks.check_missing,
    )
    for stage, task in zip(LEARNING_STAGES, tasks, strict=True):
        with timed(directory, stage):
            task(data, workers)
        if stage == until:
            return False
    return True


def _given_source(study: Study, verify: bool = True) -> LatentSource | PoolSource:
    """The source of a study that does not start from collisions."""
    if isinstance(study.source, PoolDirectory):
        return PoolSource.open(study.source.path, verify)
    if isinstance(study.source, LatentWorld):
        return LatentSource(study.source.nuisances)
    raise TypeError("the pools of this study are made by its stages")


def open_sources(study: Study, directory: RunDirectory, verify: bool = True) -> Sources:
    """Where toys of each space come from; spaces whose pools are not there yet are left out.

    `verify` reads the pools once and compares their digests.
    """
    if not isinstance(study.source, Collisions):
        return dict.fromkeys(study.spaces, _given_source(study, verify))
    ready = [where for where in study.spaces if (directory.pools(where) / MANIFEST).exists()]
    return {where: PoolSource.open(directory.pools(where), verify) for where in ready}
