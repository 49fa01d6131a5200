"""The stages of a study in order. Each does what is missing and nothing else."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path

from covad.errors import PlanError, StudyError
from covad.parallel import cores
from covad.pipeline.claim import changed_keys, claim, claim_unchanged, refuse_changed
from covad.pipeline.lock import announced_toys, learning_lock, refuse_toy_computers
from covad.pipeline.manifest import timed
from covad.pipeline.outlook import outlook, warn_of_versions
from covad.pipeline.toys import check_draws, compute_missing, refuse_copies, warn_of_references
from covad.pipeline.tune import choose_bases, tune_clips
from covad.results.run import Run, as_path, open_run
from covad.runs.directory import RunDirectory
from covad.runs.products import LEARNING_STAGES, Products
from covad.runs.sources import given_source, open_sources
from covad.runs.status import learning_progress
from covad.runs.tuned import read_bases, read_clips
from covad.study import Collisions, Study, read_study
from covad.study.plan import Sources, bases_to_choose, clips_to_tune
from covad.toys.backends.dask import DaskWorkers
from covad.toys.backends.local import LocalWorkers
from covad.toys.drawing import PoolSource
from covad.toys.ensembles import Shard
from covad.toys.run import Backend, ToysComputed, stoppable

log = logging.getLogger(__name__)

STAGES = (*LEARNING_STAGES, "tune", "toys")


def choose_workers(study: Study, number: int | None, address: str | None) -> LocalWorkers | DaskWorkers:
    """Return the workers that the user names; else those of the study's cluster, or all cores here."""
    if number is not None and not (isinstance(number, int) and number >= 1):
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
    content = read_study(as_path(study, "a study file"))
    with choose_workers(content, workers, dask) as pool:
        run_study(content, as_path(out, "a run directory"), pool.results, until=until, workers=workers)
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
    Anyone else holds a lock while it makes what toys share, and a second one is refused meanwhile.
    """
    refuse_unknown_stage(until)
    directory, shard = RunDirectory(out), shard or Shard()
    with stoppable(), ExitStack() as stack:
        study, source = try_source(study, directory)
        if shard.total > 1:
            refuse_unprepared(study, directory)  # nothing is written for a shard that comes too early
            stack.enter_context(announced_toys(directory, shard))  # from here on nobody changes the study
            refuse_changed(directory, study, source)
            refuse_unprepared(study, directory)
            claim_unchanged(directory, study, source)
            sources = open_sources(study, directory)
        else:
            with learning_lock(directory):
                if changed_keys(directory, study, source):
                    for line in outlook(study, directory, source):
                        log.info("%s", line)
                    refuse_toy_computers(directory)
                claim(directory, study, source)
                sources = prepare(study, directory, backend, until, workers or cores())
                if until == "toys":  # before anyone else can change the study
                    stack.enter_context(announced_toys(directory, shard))
        if until != "toys":
            return None
        with timed(directory, "toys"):
            return compute_missing(study, sources, directory, backend, shard)


def dry_run(study: Study, out: Path, until: str = STAGES[-1]) -> list[str]:
    """Return what `run_study` would keep, make anew and compute; nothing is started and nothing written."""
    refuse_unknown_stage(until)
    directory, later = RunDirectory(out), STAGES[STAGES.index(until) + 1 :]
    study, source = try_source(study, directory)
    lines = [line for line in outlook(study, directory, source) if line.partition(":")[0] not in later]
    return lines + _expected(study, directory)


def refuse_unknown_stage(name: str) -> None:
    """Raise PlanError unless there is such a stage."""
    if name not in STAGES:
        raise PlanError(f"there is no stage '{name}' (there are {', '.join(STAGES)})")


def _expected(study: Study, directory: RunDirectory) -> list[str]:
    """Return the table of the processes, where the study has one."""
    if not isinstance(study.source, Collisions):
        return []
    from covad.pipeline.yields import doubts, yield_lines
    from covad.runs.collisions import CollisionData

    data = CollisionData.of(study, directory)
    return yield_lines(data) + doubts(data)


def refuse_unprepared(study: Study, directory: RunDirectory) -> None:
    """Raise PlanError unless a run has all that its toys share: shards make none of it."""
    first = "`covad run ... --until tune` comes first"
    if not all(stage.finished for stage in learning_progress(study, directory)):
        raise PlanError(f"events are embedded before shards are run: {first}")
    sources, products = open_sources(study, directory, verify=False), Products(study, directory)
    if clips_to_tune(study, read_clips(products, sources)):
        raise PlanError(f"the clip is tuned before shards are run: {first}")
    for test, _ in bases_to_choose(study, read_bases(products, sources)):
        raise PlanError(f"the basis of the {test} test is chosen before shards are run: {first}")


def try_source(study: Study, directory: RunDirectory) -> tuple[Study, str | None]:
    """Return the study as a run keeps it, and what identifies the source beside its keys.

    Raise if events or systematics cannot be used.
    """
    if not isinstance(study.source, Collisions):
        given = given_source(study)
        warn_of_references(study, dict.fromkeys(study.spaces, given.reference_share))
        if isinstance(given, PoolSource):
            refuse_copies(given)
        check_draws(study, dict.fromkeys(study.spaces, given))
        return study, given.digest
    # the simulators take seconds to import, and studies without events do not need them
    from covad.pipeline import selected, trial, yields
    from covad.runs.collisions import CollisionData, users_code

    data = CollisionData.of(study, directory)
    code = users_code(data)
    trial.check_collisions(data)
    data = yields.settled(data)
    warn_of_references(data.study, dict.fromkeys(data.study.spaces, 1.0))
    trial.try_events(data)
    selected.check_counted(data)
    if users_code(data) != code:
        raise StudyError(
            "the code of the systematics or observables has changed while it was tried; run again"
        )
    return data.study, code


def prepare(study: Study, directory: RunDirectory, backend: Backend, until: str, workers: int) -> Sources:
    """Make what all toys share, up to `until`: models and pools from events, then bases and clips.

    Return what toys are drawn from, nothing if it is not complete by then.
    """
    warn_of_versions(Products(study, directory))
    if isinstance(study.source, Collisions):
        learn(study, directory, until, workers)
    if until in LEARNING_STAGES:
        return {}
    sources, products = open_sources(study, directory), Products(study, directory)
    if isinstance(study.source, Collisions):  # what weights take is known only now
        shares = {where: source.reference_share for where, source in sources.items()}
        warn_of_references(study, {where: share for where, share in shares.items() if share < 1.0})
    check_draws(study, sources, products.worst)
    with timed(directory, "tune"):
        choose_bases(products, sources)
        tune_clips(products, sources, backend)
    return sources


def learn(study: Study, directory: RunDirectory, until: str, workers: int) -> None:
    """Go from events to the spaces that toys are drawn in, up to `until` if it is on the way."""
    # torch takes seconds to import, and studies without events do not need it
    from covad.pipeline import checks, events, pools, response, spaces
    from covad.runs.collisions import CollisionData

    data = CollisionData.of_run(study, directory)
    tasks = {
        "events": events.simulate_missing,
        "spaces": spaces.make_missing,
        "response": response.fit_missing,
        "checks": checks.check_missing,
        "pools": pools.embed_missing,
    }
    for stage, task in tasks.items():
        with timed(directory, stage):
            task(data, workers)
        if stage == until:
            return
