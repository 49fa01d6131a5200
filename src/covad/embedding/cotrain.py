"""Stage 1: the encoder and g_phi are trained together, L = L_supCL + alpha L_cov + beta L_keep.

beta = 0 is the paper's loss (eq:total), and alpha = 0 then gives the contrastive (unlinearised) embedding
from the same events and budget. Batches are functions of (seed, step) and checkpoints hold everything else,
so a training that was killed continues to the bit.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from covad.embedding.batches import Batch, Sampler
from covad.embedding.checkpoint import State, copy_state, load_checkpoint, save_checkpoint
from covad.embedding.device import training_device
from covad.embedding.encoder import Encoder
from covad.embedding.encoders import new_encoder
from covad.embedding.keep import make_keep
from covad.embedding.losses import RatioHead, covariance_loss, supervised_contrastive
from covad.embedding.metrics import Learned, Metrics
from covad.embedding.settings import EncoderSettings, TrainingSettings
from covad.errors import DamagedFileError, TrainingError
from covad.storage.atomic import write_bytes

log = logging.getLogger(__name__)


class Losses(NamedTuple):
    """The losses of a batch; L_keep only where it has a weight."""

    contrastive: torch.Tensor
    covariance: torch.Tensor
    keep: torch.Tensor | None


class JointModel(nn.Module):
    """Encoder, g_phi and L_keep with their losses."""

    def __init__(self, encoder: Encoder, sampler: Sampler, settings: TrainingSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.ratio = RatioHead(encoder.outputs, settings.ratio_hidden, len(sampler.covariant))
        self.keep = make_keep(sampler, encoder.outputs, settings)
        self.settings = settings

    def forward(self, batch: Batch) -> Losses:
        """Return the losses of a batch; nominal, shifted and changed events are encoded together.

        L_cov and L_keep are taken in z standardised by the nominal batch, so that the scale of z is free.
        """
        device = self.encoder.device
        covariant = self.settings.alpha > 0 and bool(batch.shifted)
        moved = [partner.moved for partner in batch.shifted] if covariant else []
        changed = batch.particles[:0] if batch.changed is None else batch.changed.particles
        together = [batch.particles, changed, *moved]
        z, z_changed, *z_moved = self.encoder(np.concatenate(together)).split([*map(len, together)])
        on_projector = self.settings.contrast_on == "projector"
        points = self.encoder.project(z) if on_projector else nn.functional.normalize(z, dim=1)
        labels = torch.from_numpy(batch.labels).to(device)
        contrastive = supervised_contrastive(points, labels, self.settings.temperature)
        centre, width = z.mean(dim=0), z.std(dim=0) + 1e-6
        u = (z - centre) / width
        kept = None if self.keep is None else self.keep(u, (z_changed - centre) / width, batch)
        if not covariant:
            return Losses(contrastive, contrastive.new_tensor(0.5), kept)
        g = self.ratio(u)
        shifted = []
        for partner, moved in zip(batch.shifted, z_moved, strict=True):
            g_moved = self.ratio((moved - centre) / width)
            shifted.append(torch.cat([g[torch.from_numpy(partner.unchanged).to(device)], g_moved]))
        nu = [torch.from_numpy(partner.nu).to(device) for partner in batch.shifted]
        return Losses(contrastive, covariance_loss(nu, g, shifted), kept)


Progress = Callable[[Metrics, int], None]


class CoTraining:
    """One encoder in training: `run` goes on from the last checkpoint in `folder`, if one is whole."""

    def __init__(
        self,
        sampler: Sampler,
        validation: Sampler,
        encoder_settings: EncoderSettings,
        settings: TrainingSettings,
        folder: Path,
    ) -> None:
        known = sampler.events.process_counts()
        for name in validation.events.process_counts():
            if name not in known:
                raise TrainingError(
                    f"process '{name}' has no events to train on, but is among those of validation: raise "
                    "source.splits.encoder"
                )
        self.sampler, self.validation, self.settings, self.folder = sampler, validation, settings, folder
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)
            encoder = new_encoder(sampler.events, encoder_settings)
            model = JointModel(encoder, sampler, settings)
        self.model = model.to(training_device(settings.device))
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.step = 0
        self.history: list[Metrics] = []
        self.best: State = copy_state(self.model)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    def run(self, on_progress: Progress | None = None, until: int | None = None) -> Encoder:
        """Train to the end, or to the step `until`; return the encoder that validated best."""
        if self.checkpoint.exists():
            try:
                self._resume()
            except DamagedFileError as failure:
                log.warning("%s; the training starts again", failure)
        steps = self.settings.steps
        while self.step < min(steps, until or steps) and not self._stalled():
            for group in self.optimiser.param_groups:
                group["lr"] = learning_rate(self.step, self.settings)
            loss = self._total(*self.model(self.sampler.batch(self.step, self.settings.alpha > 0)))
            if not torch.isfinite(loss):
                raise TrainingError(
                    f"the loss is not finite in batch {self.step} of seed {self.sampler.seed}; "
                    f"lower source.training.learning_rate (the last good checkpoint is {self.checkpoint})"
                )
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            self.step += 1
            if self.step % self.settings.validate_every == 0 or self.step == steps:
                metrics = self.validate()
                if not self.history or metrics.total < min(m.total for m in self.history):
                    self.best = copy_state(self.model)
                self.history.append(metrics)
                self._save()
                if on_progress:
                    on_progress(metrics, steps)
        self.model.load_state_dict(self.best)
        return self.model.encoder

    @torch.no_grad()
    def validate(self) -> Metrics:
        """Return the mean losses over the first batches of the validation sampler, in float64."""
        numbers = range(self.settings.validation_batches)
        batches = (self.validation.batch(number, self.settings.alpha > 0) for number in numbers)
        parts = [[float(loss) for loss in self.model(batch) if loss is not None] for batch in batches]
        contrastive, covariance, *kept = torch.tensor(parts, dtype=torch.float64).mean(dim=0).tolist()
        keep = kept[0] if kept else None
        total = self._total(contrastive, covariance, keep)
        if not math.isfinite(total):
            raise TrainingError(
                f"the validation loss is not finite after {self.step} steps; "
                f"lower source.training.learning_rate (the last good checkpoint is {self.checkpoint})"
            )
        return Metrics(self.step, contrastive, covariance, total, keep)

    def _total(self, contrastive: Any, covariance: Any, keep: Any) -> Any:
        """Return the weighted sum of the losses, of tensors or of numbers."""
        total = self.settings.contrast * contrastive + self.settings.alpha * covariance
        return total if keep is None else total + self.settings.beta * keep

    @torch.no_grad()
    def learned(self) -> Learned:
        """Return by how much L_cov of the encoder that validated best is below that of no information."""
        batches = (self.validation.batch(number) for number in range(self.settings.validation_batches))
        gains = np.array([0.5 - float(self.model(batch).covariance) for batch in batches])
        return Learned.of(gains)

    def _stalled(self) -> bool:
        """Return whether the last `patience` validations were no better than the best before them."""
        if not self.history:
            return False
        best = min(range(len(self.history)), key=lambda i: self.history[i].total)
        return len(self.history) - 1 - best >= self.settings.patience

    def _save(self) -> None:
        progress = self._identity | {"step": self.step, "history": [m.told() for m in self.history]}
        save_checkpoint(self.checkpoint, self.model, self.optimiser, self.best, progress)
        lines = "".join(json.dumps(m.told()) + "\n" for m in self.history)
        write_bytes(self.folder / "metrics.jsonl", lines.encode())

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree in for the training to go on as if it had not stopped."""
        return {
            "settings": self.settings.model_dump(mode="json", exclude_none=True, exclude={"device"}),
            "encoder": self.model.encoder.settings.model_dump(mode="json"),
            "batches": self.sampler.describe(),
            "judged_on": self.validation.describe(),
        }

    @property
    def _is_of_before(self) -> bool:
        """Return whether the encoder has none of the settings that came later."""
        return not set(self._identity["encoder"]) & set(EncoderSettings.added)

    def _resume(self) -> None:
        self.best, progress = load_checkpoint(self.checkpoint, self.model, self.optimiser)
        # checkpoints of before encoders had kinds and frames do not tell theirs
        progress.setdefault("encoder", self._identity["encoder"] if self._is_of_before else None)
        for key, what in (
            ("settings", "training settings"),
            ("encoder", "encoder settings"),
            ("batches", "batches"),
            ("judged_on", "validation"),
        ):
            if progress.get(key) != self._identity[key]:
                raise TrainingError(
                    f"{self.checkpoint}: was made with other {what}; remove it to begin again"
                )
        self.step = progress["step"]
        self.history = [Metrics(**m) for m in progress["history"]]


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """Return the rate at a step: linear warm-up, then half a cosine down to zero."""
    if step < settings.warm_up:
        return settings.learning_rate * (step + 1) / settings.warm_up
    done = (step - settings.warm_up) / max(1, settings.steps - settings.warm_up)
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
