"""Fit of the response on a frozen embedding, with event-matched pairs.

The loss is the negative log likelihood of the tilted model n_0 e^{f - K(nu)} for the shifted sample,

    L(nu) = log E_0[e^f] - E_nu[f] = (log E_0[e^f] - E_0[f]) - (E_nu[f] - E_0[f]),   f = nu.g + 1/2 nu.D.nu.

Its minimum is the log density ratio up to a constant, as for the paper's quadratic loss. Written this way,
the second term is a mean of differences within pairs, which vanishes for all events that the shift leaves
alone: the noise of the ratio mostly cancels. The first is of second order in f.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.checkpoint import State, copy_state
from covad.embedding.embed import Embedded
from covad.errors import CovadError, TrainingError
from covad.response.model import ResponseModel, ResponseSettings, polynomial

NuVector = tuple[float, ...]


@dataclass(frozen=True)
class Pairs:
    """One sample at nu = 0 and at several nu, aligned by event.

    `z[nu]` has a row for every event that passes at nu or at 0; `passes[nu]` says whether it passes there.
    """

    nominal: NDArray[np.float32]
    nominal_passes: NDArray[np.bool_]
    z: Mapping[NuVector, NDArray[np.float32]]
    passes: Mapping[NuVector, NDArray[np.bool_]]

    def __len__(self) -> int:
        return len(self.nominal)

    @classmethod
    def align(cls, nominal: Embedded, shifted: Mapping[NuVector, Embedded]) -> Pairs:
        if not shifted:
            raise TrainingError("the response needs at least one shifted sample")
        n = 1 + max(int(e.rows.max(initial=-1)) for e in (nominal, *shifted.values()))
        z0, passes0 = _spread(nominal, n)
        spread = {nu: _spread(e, n) for nu, e in shifted.items()}
        return cls(
            z0, passes0, {nu: s[0] for nu, s in spread.items()}, {nu: s[1] for nu, s in spread.items()}
        )

    def take(self, rows: NDArray[np.int64]) -> Pairs:
        return Pairs(
            self.nominal[rows],
            self.nominal_passes[rows],
            {nu: z[rows] for nu, z in self.z.items()},
            {nu: p[rows] for nu, p in self.passes.items()},
        )


def _spread(embedded: Embedded, n: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    if (embedded.rows < 0).any():
        raise TrainingError("the response is fitted on event-matched samples")
    z = np.zeros((n, embedded.z.shape[1]), np.float32)
    passes = np.zeros(n, dtype=bool)
    z[embedded.rows], passes[embedded.rows] = embedded.z, True
    return z, passes


@dataclass(frozen=True)
class FitSettings:
    """How the response is fitted; `fits` heads from different seeds are averaged."""

    epochs: int = 12
    batch: int = 8192
    learning_rate: float = 2e-3
    weight_decay: float = 1e-6
    validation_share: float = 0.1
    patience: int = 4
    fits: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.validation_share < 1:
            raise CovadError(f"validation_share must be between 0 and 1, not {self.validation_share}")


def fit_response(
    pairs: Pairs, shape: ResponseSettings, settings: FitSettings
) -> tuple[ResponseModel, list[float]]:
    """Fit all heads; also return the validation loss of each, per event (zero means no information)."""
    rng = np.random.default_rng(np.random.SeedSequence(settings.seed))
    order = rng.permutation(len(pairs))
    n_validation = max(1, int(len(pairs) * settings.validation_share))
    validation, training = (
        pairs.take(np.sort(order[:n_validation])),
        pairs.take(np.sort(order[n_validation:])),
    )
    passed = training.nominal[training.nominal_passes]
    model = ResponseModel(shape, settings.fits)
    model.centre, model.width = (
        torch.from_numpy(v) for v in (passed.mean(axis=0), passed.std(axis=0) + 1e-6)
    )
    losses = []
    for number, head in enumerate(model.heads):
        single = ResponseModel(shape)
        single.centre, single.width = model.centre, model.width
        losses.append(_fit_one(single, training, validation, settings, settings.seed + number))
        head.load_state_dict(single.heads[0].state_dict())
    model.offset = torch.from_numpy(model.columns(passed).mean(axis=0, dtype=np.float64).astype(np.float32))
    return model, losses


def _fit_one(
    model: ResponseModel, training: Pairs, validation: Pairs, settings: FitSettings, seed: int
) -> float:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in model.heads.modules():
            if isinstance(module, torch.nn.Linear):
                module.reset_parameters()
    steps = settings.epochs * max(1, len(training) // settings.batch)
    optimiser = torch.optim.AdamW(
        model.heads.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.learning_rate, total_steps=steps + 1)
    best, best_loss, waited = copy_state(model), validation_loss(model, validation), 0
    for epoch in range(settings.epochs):
        rows = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(epoch,))).permutation(
            len(training)
        )
        for i in range(0, max(1, len(rows) // settings.batch) * settings.batch, settings.batch):
            batch = training.take(np.sort(rows[i : i + settings.batch]))
            loss = torch.stack([pair_loss(model, batch, nu) for nu in batch.z]).mean()
            if not torch.isfinite(loss):
                raise TrainingError(f"the loss of the response is not finite in epoch {epoch}, batch {i}")
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
        best, best_loss, waited = _keep_best(model, validation, best, best_loss, waited)
        if waited >= settings.patience:
            break
    model.load_state_dict(best)
    return best_loss


def _keep_best(
    model: ResponseModel, validation: Pairs, best: State, best_loss: float, waited: int
) -> tuple[State, float, int]:
    loss = validation_loss(model, validation)
    return (copy_state(model), loss, 0) if loss < best_loss else (best, best_loss, waited + 1)


def pair_loss(model: ResponseModel, pairs: Pairs, nu: NuVector) -> torch.Tensor:
    """L(nu) of a batch; only events that moved are evaluated twice."""
    weight = torch.from_numpy(polynomial(np.array(nu), model.settings.order).astype(np.float32))
    f0 = model(torch.from_numpy(pairs.nominal)) @ weight
    moved = np.flatnonzero((pairs.z[nu] != pairs.nominal).any(axis=1))
    change = torch.zeros_like(f0).index_put(
        (torch.from_numpy(moved),), model(torch.from_numpy(pairs.z[nu][moved])) @ weight - f0[moved]
    )
    here, there = (torch.from_numpy(p) for p in (pairs.nominal_passes, pairs.passes[nu]))
    mean0 = f0[here].mean()
    spread = torch.log(torch.exp(f0[here] - mean0).mean())
    loss: torch.Tensor = spread - ((f0 + change)[there].mean() - mean0)
    return loss


def validation_loss(model: ResponseModel, pairs: Pairs) -> float:
    """L averaged over the nu of the sample, in float64."""
    nominal = model.columns(pairs.nominal[pairs.nominal_passes]).astype(np.float64)
    losses = []
    for nu, z in pairs.z.items():
        weight = polynomial(np.array(nu), model.settings.order)
        shifted = model.columns(z[pairs.passes[nu]]).astype(np.float64)
        losses.append(np.log(np.exp(nominal @ weight).mean()) - (shifted @ weight).mean())
    return float(np.mean(losses))
