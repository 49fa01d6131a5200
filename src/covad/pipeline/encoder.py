"""Encoders of the stage `spaces`: every learned space and fold is co-trained in a process of its own."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.embedding.batches import Sampler, covariant
from covad.embedding.cotrain import CoTraining
from covad.embedding.device import training_device
from covad.embedding.frame import EventFrame
from covad.embedding.keep import observables_there
from covad.embedding.metrics import Metrics
from covad.embedding.settings import Objective, TrainingSettings
from covad.errors import TrainingError, UnknownNameError
from covad.events.changes import changes_there
from covad.events.layout import EventLayout
from covad.events.processes import BACKGROUND
from covad.messages import counted, duration_text
from covad.parallel import run_jobs
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.study import Study

log = logging.getLogger(__name__)


def fold_label(data: CollisionData, fold: int) -> str:
    """Return how a fold is told in messages; not at all where there is one only."""
    return f", fold {fold}" if data.source.folds > 1 else ""


def check_learned(data: CollisionData, layout: EventLayout) -> None:
    """Raise if an encoder cannot be trained here, or not on events of this layout: before any is."""
    if data.source.learned:
        training_device(data.source.training.device)
    for name, entry in data.source.learned.items():
        settings = entry.encoder_of(data.source.encoder)
        key = "source.encoder" if entry.encoder is None else f"source.spaces.{name}.encoder"
        try:
            EventFrame.of(layout, settings.axis)
        except UnknownNameError as failure:
            raise UnknownNameError(f"{key}.axis: {failure}") from failure
        if "observables" in entry.kept:
            try:
                observables_there(layout)
            except TrainingError as failure:
                raise TrainingError(f"source.spaces.{name}.{failure}") from failure
        if "changes" in entry.kept:
            try:
                changes_there(layout, data.source.training.changes)
            except UnknownNameError as failure:
                raise UnknownNameError(f"source.training.changes: {failure}") from failure


def train_missing(data: CollisionData, workers: int) -> None:
    """Train every encoder that is not there whole, each in a process of its own."""
    missing = []
    for name, fold in data.products.models:
        if name not in data.source.learned:
            continue
        product = data.products.space(name, fold)
        folder = Path(product.name).parent  # the state of its training goes with an encoder
        if product.make_room(*(str(folder / file) for file in ("checkpoint.safetensors", "metrics.jsonl"))):
            missing.append((data.study, data.directory, name, fold))
    if missing:
        log.info("stage spaces: %s to train", counted(len(missing), "encoder"))
    run_jobs(train_encoder, missing, workers)


def train_encoder(study: Study, directory: RunDirectory, space: str, fold: int) -> None:
    """Co-train one encoder with its losses, from its last checkpoint if there is one."""
    data = CollisionData.of_run(study, directory)
    entry = data.source.learned[space]
    again = (f"seed {entry.seed}",) if entry.seed else ()  # validation has the same batches for all
    training, validation = training_rows(data, fold)
    folder = directory.model(space, fold)
    folder.mkdir(parents=True, exist_ok=True)
    names = data.source.training.covariance
    chosen = None if names is None else covariant(data.systematics, names)
    with data.open(BACKGROUND) as files:
        samples = [files.read(rows) for rows in (training, validation)]
    asked = data.source.training.changes
    changes = changes_there(samples[0].layout, asked) if "changes" in entry.kept else ()
    batches, judge = (
        Sampler(
            events=events,
            systematics=data.systematics,
            selection=data.selection,
            batch_size=data.source.training.batch,
            seed=derived_seed(study, "batches", kind, str(fold), *(again if kind == "training" else ())),
            covariance=chosen,
            changes=changes,
        )
        for kind, events in zip(("training", "validation"), samples, strict=True)
    )
    settings = TrainingSettings(
        **dict(data.source.training),
        **{key: getattr(entry, key) for key in Objective.model_fields},
        seed=derived_seed(study, "encoder", str(fold), *again),
    )
    run = CoTraining(batches, judge, entry.encoder_of(data.source.encoder), settings, folder)
    what = f"encoder {space}{fold_label(data, fold)}"
    encoder = run.run(_logged(what, settings.alpha > 0))
    if settings.alpha > 0 and (learned := run.learned()).nothing:
        log.warning(
            "%s: L_cov has learned nothing beyond chance: it is %.2g +- %.1g below the 0.5 of no "
            "information; the space is not made linear in nu: raise source.training.steps, or alpha",
            what,
            learned.gain,
            learned.error,
        )
    product = data.products.space(space, fold)
    encoder.save(product.path, trained_on(data, training) | {"history": [m.told() for m in run.history]})
    data.note(product)


def training_rows(data: CollisionData, fold: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on and those for validation: all folds but one, or the only one."""
    folds = data.encoder_folds()
    kept = folds if len(folds) == 1 else [rows for number, rows in enumerate(folds) if number != fold]
    split = np.random.default_rng(derived_seed(data.study, "split", str(fold)))
    rows = split.permutation(np.concatenate(kept))
    n_validation = int(len(rows) * data.source.training.validation_share)
    return np.sort(rows[n_validation:]), np.sort(rows[:n_validation])


def trained_on(data: CollisionData, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return what a model file tells about the events behind it."""
    return {
        "rows": hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest(),
        "n_events": len(rows),
        "systematics": [entry.description for entry in data.source.systematics],
    }


def _logged(what: str, trains_covariance: bool) -> Callable[[Metrics, int], None]:
    """Return a function that logs the progress of a training, with the time that is left."""
    began: tuple[float, int] | None = None  # when, and at which step: a resumed training begins late

    def log_progress(metrics: Metrics, steps: int) -> None:
        nonlocal began
        left = ""
        if began is None:
            began = time.monotonic(), metrics.step
        elif began[1] < metrics.step < steps:
            per_step = (time.monotonic() - began[0]) / (metrics.step - began[1])
            left = f", about {duration_text(per_step * (steps - metrics.step))} left"
        losses = f"L_supCL {metrics.contrastive:.4f}"
        if trains_covariance:
            losses += f", L_cov {metrics.covariance:.6f}"
        if metrics.keep is not None:
            losses += f", L_keep {metrics.keep:.4f}"
        log.info("%s: step %d of %d, %s%s", what, metrics.step, steps, losses, left)

    return log_progress
