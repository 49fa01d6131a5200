"""Stages `encoder` and `response`: what is learned, per embedding and fold, each in a process of its own."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.campaign import Space
from covad.digests import file_digest
from covad.embedding.cache import EmbeddingCache
from covad.embedding.cotrain import CoTraining, Metrics, TrainingSettings
from covad.embedding.encoder import Encoder, EncoderSettings
from covad.embedding.sampling import Sampler
from covad.events.processes import BACKGROUND
from covad.parallel import run_jobs
from covad.pipeline.collisions import CollisionData, derived_seed, events_digest
from covad.pipeline.directory import RunDirectory
from covad.response.fit import FitSettings, Pairs, fit_response
from covad.response.model import ResponseModel, ResponseSettings
from covad.study import Study

log = logging.getLogger(__name__)


def model_names(data: CollisionData) -> list[tuple[str, int]]:
    """(embedding, fold) of all encoders."""
    return [(name, fold) for name in data.source.embeddings for fold in range(data.source.folds)]


def train_missing(data: CollisionData, workers: int) -> None:
    """Stage `encoder`."""
    missing = [
        (data.study, data.directory, name, fold)
        for name, fold in model_names(data)
        if not data.directory.encoder(name, fold).exists()
    ]
    run_jobs(train_encoder, missing, workers)


def train_encoder(study: Study, directory: RunDirectory, embedding: str, fold: int) -> None:
    """Co-train one encoder with L_supCL + alpha L_cov, from its last checkpoint if there is one."""
    data = CollisionData.of(study, directory)
    training, validation = _encoder_rows(data, fold)
    settings = data.source.training.model_dump(exclude={"batch", "validation_share"})
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
    seed = derived_seed(study, "encoder", str(fold))
    run = CoTraining(
        batches,
        judge,
        EncoderSettings(**data.source.encoder.model_dump()),
        TrainingSettings(**settings, alpha=data.source.embeddings[embedding].alpha, seed=seed),
        folder,
    )
    encoder = run.run(_announce(f"encoder {embedding}, fold {fold}"))
    encoder.save(
        directory.encoder(embedding, fold),
        _trained_on(data, training) | {"history": [asdict(m) for m in run.history]},
    )


def _encoder_rows(data: CollisionData, fold: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and validation rows: all folds but one, or everything if there is only one."""
    folds = data.encoder_folds()
    kept = folds if len(folds) == 1 else [rows for number, rows in enumerate(folds) if number != fold]
    rows = np.random.default_rng(derived_seed(data.study, "split", str(fold))).permutation(
        np.concatenate(kept)
    )
    n_validation = int(len(rows) * data.source.training.validation_share)
    return np.sort(rows[n_validation:]), np.sort(rows[:n_validation])


def _trained_on(data: CollisionData, rows: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "events": events_digest(data.directory),
        "rows": _digest_of_rows(rows),
        "n_events": len(rows),
        "systematics": [entry.description for entry in data.source.systematics],
    }


def _digest_of_rows(rows: NDArray[np.int64]) -> str:
    return hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()


def _announce(what: str) -> Callable[[Metrics, int], None]:
    began: tuple[float, int] | None = None  # when, and at which step: a resumed training begins late

    def say(metrics: Metrics, steps: int) -> None:
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

    return say


def fit_missing(data: CollisionData, workers: int) -> None:
    """Stage `response`."""
    missing = [
        (data.study, data.directory, name, fold, orders)
        for name, fold in model_names(data)
        if (orders := _orders_missing(data, name, fold))
    ]
    run_jobs(fit_responses, missing, workers)


def _orders_missing(data: CollisionData, embedding: str, fold: int) -> list[int]:
    wanted = {order for name, order in data.study.spaces if name == embedding}
    return sorted(o for o in wanted if not data.directory.response(embedding, fold, o).exists())


def fit_responses(
    study: Study, directory: RunDirectory, embedding: str, fold: int, orders: list[int]
) -> None:
    """Embed the response pool once, and fit g (and D) on it."""
    data = CollisionData.of(study, directory)
    encoder = Encoder.load(directory.encoder(embedding, fold))
    pairs = embedded_pairs(data, embedding, fold, "response")
    settings = data.source.response.model_dump(exclude={"hidden"})
    for order in orders:
        shape = ResponseSettings(
            encoder.settings.outputs, len(data.systematics), order, data.source.response.hidden
        )
        seed = derived_seed(study, "response", str(fold))
        model, losses = fit_response(pairs, shape, FitSettings(**settings, seed=seed))
        log.info("response of %s, fold %d, order %d: loss %s", embedding, fold, order, losses)
        model.save(
            directory.response(embedding, fold, order),
            _trained_on(data, data.rows["response"]) | {"losses": losses},
        )


def embedded_pairs(data: CollisionData, embedding: str, fold: int, role: str) -> Pairs:
    """The events of a pool at nu = 0 and on the grid of the response, aligned by event."""
    path = data.directory.encoder(embedding, fold)
    cache = EmbeddingCache(
        data.directory.path / "embedded",
        Encoder.load(path),
        file_digest(path),
        data.systematics,
        data.selection,
    )
    centre = tuple(0.0 for _ in data.systematics)
    points = [centre, *response_grid(len(data.systematics))]
    with data.open(BACKGROUND) as files:
        events = f"{events_digest(data.directory)}/{_digest_of_rows(data.rows[role])}"
        family = cache.family(events, files.pieces(data.rows[role]), points)
    return Pairs.align(family.pop(centre), family)


def response_grid(n_nuisances: int) -> list[tuple[float, ...]]:
    """+-1 and +-2 sigma along every axis, and for the mixed terms of D the corners of every plane."""
    axes = np.eye(n_nuisances)
    points = [size * axis for axis in axes for size in (1.0, -1.0, 2.0, -2.0)]
    for k in range(n_nuisances):
        for m in range(k):
            points += [s * axes[k] + r * axes[m] for s in (1.0, -1.0) for r in (1.0, -1.0)]
    return [tuple(float(x) for x in point) for point in points]


def load_models(data: CollisionData, space: Space) -> tuple[Encoder, ResponseModel]:
    """Encoder and response of a space, of the fold that the toys use."""
    embedding, order = space
    encoder = Encoder.load(data.directory.encoder(embedding, data.source.fold))
    return encoder, ResponseModel.load(data.directory.response(embedding, data.source.fold, order))
