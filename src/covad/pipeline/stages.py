"""The stages of a study in order. Each does what is missing and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from covad.errors import PlanError
from covad.parallel import cores
from covad.pipeline.claim import claim
from covad.pipeline.manifest import timed
from covad.pipeline.toys import check_draws, compute_missing
from covad.pipeline.tune import choose_bases, tune_clips
from covad.results.run import Run, open_run
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.sources import given_source, open_sources
from covad.runs.status import learning_progress
from covad.runs.tuned import read_bases, read_clips
from covad.study import Collisions, Study, read_study
from covad.study.plan import bases_to_choose, clips_to_tune
from covad.toys.backends.dask import DaskWorkers
from covad.toys.backends.local import LocalWorkers
from covad.toys.ensembles import Shard
from covad.toys.run import Backend, ToysComputed, stoppable

#: From events to the spaces that toys are drawn in; only for studies that start from collisions.
LEARNING_STAGES = ("events", "encoder", "response", "pools", "checks")
STAGES = (*LEARNING_STAGES, "tune", "toys")


def choose_workers(study: Study, number: int | None, address: str | None) -> LocalWorkers | DaskWorkers:
    """Return the workers that the user names; else those of the study's cluster, or all cores here."""
    if number is not None and number < 1:
        raise PlanError(f"a run needs one worker or more, not {number}")
    if address is not None:
        return DaskWorkers(address)
    if study.cluster is not None and number is None:
        return DaskWorkers(study.cluster)
    return LocalWorkers(number or cores())


def run(
    study: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    until: str = STAGES[-1],
    workers: int | None = None,
    dask: str | None = None,
) -> Run:
    """Do what is missing of a study file in the run directory `out`, and open the run.

    `workers` are processes on this machine, by default one per core; `dask` is the address of a scheduler.
    """
    content = read_study(Path(study))
    with choose_workers(content, workers, dask) as pool:
        run_study(content, Path(out), pool.results, until=until, workers=workers)
    return open_run(out)


def run_study(
    study: Study,
    out: Path,
    backend: Backend,
    shard: Shard | None = None,
    until: str = STAGES[-1],
    workers: int | None = None,
) -> ToysComputed | None:
    """Do what is missing of the study, up to a stage; return None if that is before the toys.

    A shard computes toys only: many jobs that simulate, train or tune the same would overwrite each other.
    """
    if until not in STAGES:
        raise PlanError(f"there is no stage '{until}' (there are {', '.join(STAGES)})")
    directory = RunDirectory(out)
    is_part = shard is not None and shard.total > 1
    first = "`covad run ... --until tune` comes first"
    with stoppable():
        if isinstance(study.source, Collisions):
            if is_part and not all(stage.finished for stage in learning_progress(study, directory)):
                raise PlanError(f"events are embedded before shards are run: {first}")
            learn(study, directory, until, workers or cores())
        else:
            claim(directory, study, given_source(study).fingerprint)
        if until in LEARNING_STAGES:
            return None

        sources, products = open_sources(study, directory), Products(study, directory)
        check_draws(study, sources)
        if is_part and clips_to_tune(study, read_clips(products, sources)):
            raise PlanError(f"the clip is tuned before shards are run: {first}")
        if is_part and bases_to_choose(study, read_bases(products, sources)):
            raise PlanError(f"the basis of the convex test is chosen before shards are run: {first}")
        with timed(directory, "tune"):
            choose_bases(products, sources)
            tune_clips(products, sources, backend)
        if until == "tune":
            return None

        with timed(directory, "toys"):
            return compute_missing(study, sources, directory, backend, shard)


def learn(study: Study, directory: RunDirectory, until: str, workers: int) -> None:
    """Go from events to the spaces that toys are drawn in, up to `until` if it is on the way."""
    # torch and the simulators take seconds to import, and studies without events do not need them
    from covad.pipeline import checks, encoder, events, pools, response, trial
    from covad.runs.collisions import CollisionData, users_code

    data = CollisionData.of(study, directory)
    trial.check_collisions(data)
    trial.try_events(data)
    claim(directory, study, users_code(data))
    tasks = {
        "events": events.simulate_missing,
        "encoder": encoder.train_missing,
        "response": response.fit_missing,
        "pools": pools.embed_missing,
        "checks": checks.check_missing,
    }
    for stage, task in tasks.items():
        with timed(directory, stage):
            task(data, workers)
        if stage == until:
            return
