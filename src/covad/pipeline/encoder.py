"""Stage `encoder`: every embedding and fold is co-trained, each in a process of its own."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.embedding.batches import Sampler
from covad.embedding.cotrain import CoTraining
from covad.embedding.metrics import Metrics
from covad.embedding.settings import TrainingSettings
from covad.events.processes import BACKGROUND
from covad.parallel import run_jobs
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.study import Study

log = logging.getLogger(__name__)


def model_names(data: CollisionData) -> list[tuple[str, int]]:
    """Return (embedding, fold) of all encoders."""
    return [(name, fold) for name in data.source.embeddings for fold in range(data.source.folds)]


def train_missing(data: CollisionData, workers: int) -> None:
    """Train every encoder that is not there whole, each in a process of its own."""
    missing = [
        (data.study, data.directory, name, fold)
        for name, fold in model_names(data)
        if not data.products.encoder(name, fold).whole()
    ]
    run_jobs(train_encoder, missing, workers)


def train_encoder(study: Study, directory: RunDirectory, embedding: str, fold: int) -> None:
    """Co-train one encoder with L_supCL + alpha L_cov, from its last checkpoint if there is one."""
    data = CollisionData.of(study, directory)
    # all folds but one, or everything if there is only one; a part of it is kept for validation
    folds = data.encoder_folds()
    kept = folds if len(folds) == 1 else [rows for number, rows in enumerate(folds) if number != fold]
    split = np.random.default_rng(derived_seed(study, "split", str(fold)))
    rows = split.permutation(np.concatenate(kept))
    n_validation = int(len(rows) * data.source.training.validation_share)
    training, validation = np.sort(rows[n_validation:]), np.sort(rows[:n_validation])
    folder = directory.model(embedding, fold)
    folder.mkdir(parents=True, exist_ok=True)
    with data.open(BACKGROUND) as files:
        batches, judge = (
            Sampler(
                events=files.read(rows),
                systematics=data.systematics,
                selection=data.selection,
                batch_size=data.source.training.batch,
                seed=derived_seed(study, "batches", kind, str(fold)),
            )
            for kind, rows in (("training", training), ("validation", validation))
        )
    settings = TrainingSettings(
        **dict(data.source.training),
        alpha=data.source.embeddings[embedding].alpha,
        seed=derived_seed(study, "encoder", str(fold)),
    )
    run = CoTraining(batches, judge, data.source.encoder, settings, folder)
    encoder = run.run(_logged(f"encoder {embedding}, fold {fold}"))
    product = data.products.encoder(embedding, fold)
    encoder.save(product.path, trained_on(data, training) | {"history": [asdict(m) for m in run.history]})
    product.note()


def trained_on(data: CollisionData, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return what a model file tells about the events behind it."""
    return {
        "rows": hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest(),
        "n_events": len(rows),
        "systematics": [entry.description for entry in data.source.systematics],
    }


def _logged(what: str) -> Callable[[Metrics, int], None]:
    """Return a function that logs the progress of a training, with the time that is left."""
    began: tuple[float, int] | None = None  # when, and at which step: a resumed training begins late

    def log_progress(metrics: Metrics, steps: int) -> None:
        nonlocal began
        left = None
        if began is None:
            began = time.monotonic(), metrics.step
        elif metrics.step > began[1]:
            left = (time.monotonic() - began[0]) / (metrics.step - began[1]) * (steps - metrics.step)
        log.info(
            "%s: step %d of %d, L_supCL %.4f, L_cov %.6f%s",
            what,
            metrics.step,
            steps,
            metrics.contrastive,
            metrics.covariance,
            "" if left is None else f", {left / 60:.1f} min left",
        )

    return log_progress
