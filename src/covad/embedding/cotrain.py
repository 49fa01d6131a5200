"""Stage 1: the encoder and g_phi are trained together, L = L_supCL + alpha L_cov (eq:total).

alpha = 0 gives the contrastive (unlinearised) embedding from the same events and budget. Batches are
functions of (seed, step) and checkpoints hold everything else, so a training that was killed continues to the
bit. Under torchrun the batch is divided among the ranks, and the contrastive loss still sees all of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from covad.embedding.batches import Batch, Sampler
from covad.embedding.checkpoint import State, copy_state, load_checkpoint, save_checkpoint
from covad.embedding.encoder import Encoder, EncoderSettings, InputScaling
from covad.embedding.losses import RatioHead, covariance_loss, gather_ranks, supervised_contrastive
from covad.embedding.metrics import Metrics
from covad.errors import CovadError, TrainingError
from covad.storage.atomic import write_bytes


@dataclass(frozen=True)
class TrainingSettings:
    """How stage 1 is trained; the losses are means, so alpha is larger than the paper's for its sums."""

    alpha: float = 30.0
    steps: int = 3000
    learning_rate: float = 2e-3
    warm_up: int = 100
    weight_decay: float = 1e-6
    temperature: float = 0.1
    ratio_hidden: tuple[int, ...] = (64, 64)
    validate_every: int = 250
    validation_batches: int = 8
    patience: int = 8
    contrast_on: str = "projector"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.contrast_on not in ("projector", "z"):
            raise CovadError(f"contrast_on must be 'projector' or 'z', not '{self.contrast_on}'")
        for name in ("steps", "validate_every", "validation_batches", "patience"):
            if getattr(self, name) < 1:
                raise CovadError(f"training setting '{name}' must be positive, not {getattr(self, name)}")
        if self.alpha < 0 or self.learning_rate <= 0:
            raise CovadError("training needs alpha >= 0 and a positive learning rate")


class JointModel(nn.Module):
    """Encoder and g_phi with their losses: one forward pass, as DDP wants it."""

    def __init__(self, encoder: Encoder, n_nuisances: int, settings: TrainingSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.ratio = RatioHead(encoder.settings.outputs, settings.ratio_hidden, n_nuisances)
        self.settings = settings

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """L_supCL and L_cov of a batch; nominal and shifted events are encoded together."""
        covariant = self.settings.alpha > 0 and bool(batch.shifted)
        moved = [partner.moved for partner in batch.shifted] if covariant else []
        z, *z_moved = self.encoder(np.concatenate([batch.particles, *moved])).split(
            [len(batch.particles), *map(len, moved)]
        )
        contrastive = self._contrastive(z, torch.from_numpy(batch.labels))
        if not covariant:
            return contrastive, contrastive.new_tensor(0.5)
        return contrastive, self._covariance(batch, z, z_moved)

    def _contrastive(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        points = self.encoder.project(z) if self.settings.contrast_on == "projector" else _unit(z)
        return supervised_contrastive(gather_ranks(points), gather_ranks(labels), self.settings.temperature)

    def _covariance(self, batch: Batch, z: torch.Tensor, z_moved: list[torch.Tensor]) -> torch.Tensor:
        """L_cov in z standardised by the nominal batch of all ranks, so that the scale of z is free."""
        whole = gather_ranks(z)
        centre, width = whole.mean(dim=0), whole.std(dim=0) + 1e-6
        g = self.ratio((z - centre) / width)
        shifted = []
        for partner, moved in zip(batch.shifted, z_moved, strict=True):
            g_moved = self.ratio((moved - centre) / width)
            shifted.append(torch.cat([g[torch.from_numpy(partner.unchanged)], g_moved]))
        return covariance_loss([torch.from_numpy(p.nu) for p in batch.shifted], g, shifted)


def _unit(z: torch.Tensor) -> torch.Tensor:
    return nn.functional.normalize(z, dim=1)


Progress = Callable[[Metrics, int], None]


class CoTraining:
    """One encoder in training: `run` goes on from the last checkpoint in `folder`, if there is one."""

    def __init__(
        self,
        sampler: Sampler,
        validation: Sampler,
        encoder_settings: EncoderSettings,
        settings: TrainingSettings,
        folder: Path,
    ) -> None:
        _check_processes(sampler, validation)
        self.sampler, self.validation, self.settings, self.folder = sampler, validation, settings, folder
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)
            scaling = InputScaling.fit(sampler.events)
            encoder = Encoder(sampler.events.layout, scaling, encoder_settings)
            self.model = JointModel(encoder, len(sampler.systematics), settings)
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
            self._resume()
        parallel = _in_parallel(self.model)
        last = min(self.settings.steps, until or self.settings.steps)
        while self.step < last and not self._stalled():
            self._train_step(parallel)
            if self.step % self.settings.validate_every == 0 or self.step == self.settings.steps:
                self._validate()
                if on_progress:
                    on_progress(self.history[-1], self.settings.steps)
        self.model.load_state_dict(self.best)
        return self.model.encoder

    def _train_step(self, model: nn.Module) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.step, self.settings)
        batch = self.sampler.batch(self.step, *_rank())
        contrastive, covariance = model(batch)
        loss = contrastive + self.settings.alpha * covariance
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss is not finite in batch {batch.step} of seed {self.sampler.seed}; "
                f"the last good checkpoint is {self.checkpoint}"
            )
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.step += 1

    def _validate(self) -> None:
        losses = self._losses(self.validation, self.settings.validation_batches)
        total = losses[0] + self.settings.alpha * losses[1]
        if not math.isfinite(total):
            raise TrainingError(
                f"the validation loss is not finite after {self.step} steps; "
                f"the last good checkpoint is {self.checkpoint}"
            )
        if not self.history or total < min(m.total for m in self.history):
            self.best = copy_state(self.model)
        self.history.append(Metrics(self.step, *losses, total))
        if _rank()[0] == 0:
            self._save()

    @torch.no_grad()
    def _losses(self, sampler: Sampler, n_batches: int) -> tuple[float, float]:
        """Mean losses over fixed batches, in float64; all ranks have the same, so they stop together."""
        parts = [self.model(sampler.batch(number, *_rank())) for number in range(n_batches)]
        losses = torch.tensor([[float(loss) for loss in part] for part in parts], dtype=torch.float64)
        contrastive, covariance = _mean_over_ranks(losses.mean(dim=0)).tolist()
        return contrastive, covariance

    def _stalled(self) -> bool:
        if not self.history:
            return False
        best = min(range(len(self.history)), key=lambda i: self.history[i].total)
        return len(self.history) - 1 - best >= self.settings.patience

    def _save(self) -> None:
        progress = self._identity | {"step": self.step, "history": [asdict(m) for m in self.history]}
        save_checkpoint(self.checkpoint, self.model, self.optimiser, self.best, progress)
        lines = "".join(json.dumps(asdict(m)) + "\n" for m in self.history)
        write_bytes(self.folder / "metrics.jsonl", lines.encode())

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree in for the training to go on as if it had not stopped."""
        settings = json.loads(json.dumps(asdict(self.settings)))
        return {
            "settings": settings,
            "batches": self.sampler.describe(),
            "judged_on": self.validation.describe(),
        }

    def _resume(self) -> None:
        self.best, progress = load_checkpoint(self.checkpoint, self.model, self.optimiser)
        for key, what in (
            ("settings", "training settings"),
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
    """Linear warm-up, then half a cosine down to zero."""
    if step < settings.warm_up:
        return settings.learning_rate * (step + 1) / settings.warm_up
    done = (step - settings.warm_up) / max(1, settings.steps - settings.warm_up)
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def _rank() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def _mean_over_ranks(values: torch.Tensor) -> torch.Tensor:
    if _rank()[1] > 1:
        dist.all_reduce(values)
    return values / _rank()[1]


def _check_processes(training: Sampler, validation: Sampler) -> None:
    """Nothing can be learned of a process without events."""
    known = training.events.process_counts()
    for name in validation.events.process_counts():
        if name not in known:
            raise TrainingError(
                f"process '{name}' has no events to train on, but is among those of validation"
            )


def _in_parallel(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model, find_unused_parameters=True) if _rank()[1] > 1 else model
