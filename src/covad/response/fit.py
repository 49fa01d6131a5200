"""Fit of the response on a frozen embedding, with event-matched pairs.

The loss is the negative log likelihood of the tilted model n_0 e^{f - eps(nu)} for the shifted sample,

    L(nu) = log E_0[e^f] - E_nu[f] = (log E_0[e^f] - E_0[f]) - (E_nu[f] - E_0[f]),   f = nu.g + 1/2 nu.D.nu.

Its minimum is the log density ratio up to a constant, as for the paper's quadratic loss. Written this way,
the second term is a mean of differences within pairs, which vanishes for all events that the shift leaves
alone: the noise of the ratio mostly cancels. The first is of second order in f.

L does not see the constant, which is the change of the yield. `yield_constants` takes it from the numbers of
events that pass the selection at each nu.

Where events have weights, all means and numbers are sums with these weights and their signs: E[f] is
sum w f / sum w. With negative weights E_0[e^f] is positive only if there are events enough. So batches then
have `_FEWEST_EFFECTIVE` effective events at least, and a mean that is not positive ends the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.checkpoint import copy_state
from covad.embedding.embed import Embedded
from covad.embedding.metrics import Learned
from covad.errors import TrainingError
from covad.events.weights import effective_number
from covad.response.model import ResponseModel, ResponseShape, polynomial
from covad.response.settings import FitSettings
from covad.settings import Nu

Floats = NDArray[np.float64]
#: Parts of the validation events from which the error of a loss is taken.
_PARTS = 10
#: Effective events of a batch with weights: their sum is then known to 5 %, and not negative by chance.
_FEWEST_EFFECTIVE = 400
_NOT_POSITIVE = (
    "negative weights leave a part of the events that the response is fitted on without a positive sum: "
    "raise source.splits.response, or source.response.batch"
)


@dataclass(frozen=True)
class Pairs:
    """One sample at nu = 0 and at several nu, aligned by event.

    `z[nu]` has a row for every event that passes at nu or at 0; `passes[nu]` says whether it passes there.
    `weights` are those of the events, with their signs and the same at every nu; None if each counts once.
    """

    nominal: NDArray[np.float32]
    nominal_passes: NDArray[np.bool_]
    z: Mapping[Nu, NDArray[np.float32]]
    passes: Mapping[Nu, NDArray[np.bool_]]
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.nominal)

    @classmethod
    def align(cls, nominal: Embedded, shifted: Mapping[Nu, Embedded]) -> Pairs:
        """Give every sample a row for every event; z is zero where an event does not pass.

        Weights that are all one are none.
        """
        if not shifted:
            raise TrainingError("the response needs at least one shifted sample")
        samples = (nominal, *shifted.values())
        n = 1 + max(int(e.rows.max(initial=-1)) for e in samples)
        z, passes, weights = [], [], np.full(n, np.nan)
        for embedded in samples:
            if (embedded.rows < 0).any():
                raise TrainingError("the response is fitted on event-matched samples")
            known = weights[embedded.rows]
            if ((embedded.weights != known) & ~np.isnan(known)).any():
                raise TrainingError(
                    "the response is fitted on events that move, not on events with other weights"
                )
            weights[embedded.rows] = embedded.weights
            z.append(np.zeros((n, embedded.z.shape[1]), np.float32))
            passes.append(np.zeros(n, dtype=bool))
            z[-1][embedded.rows], passes[-1][embedded.rows] = embedded.z, True
        return cls(
            z[0],
            passes[0],
            dict(zip(shifted, z[1:], strict=True)),
            dict(zip(shifted, passes[1:], strict=True)),
            np.nan_to_num(weights) if (weights[~np.isnan(weights)] != 1.0).any() else None,
        )

    @property
    def nominal_weights(self) -> Floats | None:
        """Return the weights of the nominal events that pass."""
        return None if self.weights is None else self.weights[self.nominal_passes]

    @property
    def n_effective(self) -> float:
        """Return how many nominal events of equal weight would tell as much as those that pass."""
        weights = self.nominal_weights
        if weights is None:
            return float(self.nominal_passes.sum())
        return effective_number(weights)

    def counts(self, passes: NDArray[np.bool_]) -> Floats:
        """Return what every event counts where those that pass are given: its weight or one, or zero."""
        return passes.astype(np.float64) if self.weights is None else self.weights * passes

    def log_yield(self, nu: Nu) -> float:
        """Return log(N_nu/N_0) of the events that pass the selection."""
        if nu not in self.passes:
            raise TrainingError(f"the yield at nu = {list(nu)} needs the sample there")
        if not (self.passes[nu].any() and self.nominal_passes.any()):
            raise TrainingError(
                f"no event passes the selection at nu = {list(nu)}, or none at 0: loosen source.cuts"
            )
        if self.weights is None:
            return float(np.log(self.passes[nu].sum() / self.nominal_passes.sum()))
        there, nominal = (float(self.counts(p).sum()) for p in (self.passes[nu], self.nominal_passes))
        if min(there, nominal) <= 0.0:
            raise TrainingError(
                f"the weights of the events that pass the selection add up to {there:.3g} at nu = {list(nu)} "
                f"and to {nominal:.3g} at 0, where positive yields are needed: raise source.splits"
            )
        return float(np.log(there / nominal))

    def take(self, rows: NDArray[np.int64]) -> Pairs:
        """Return the pairs of these rows."""
        return Pairs(
            self.nominal[rows],
            self.nominal_passes[rows],
            {nu: z[rows] for nu, z in self.z.items()},
            {nu: p[rows] for nu, p in self.passes.items()},
            None if self.weights is None else self.weights[rows],
        )


def weighted_mean(values: Floats, weights: Floats | None) -> float:
    """Return sum w x / sum w, or the plain mean without weights; raise TrainingError if sum w <= 0."""
    if weights is None:
        return float(values.mean())
    if weights.sum() <= 0.0:
        raise TrainingError(_NOT_POSITIVE)
    return float(weights @ values / weights.sum())


@dataclass(frozen=True)
class FittedResponse:
    """A response, the validation loss of each head per event (zero: no information), and what it knows."""

    model: ResponseModel
    losses: list[float]
    learned: Learned


def fit_response(pairs: Pairs, shape: ResponseShape, settings: FitSettings) -> FittedResponse:
    """Fit all heads, and judge their mean on the events that were kept for validation."""
    rng = np.random.default_rng(np.random.SeedSequence(settings.seed))
    order = rng.permutation(len(pairs))
    n_validation = max(1, int(len(pairs) * settings.validation_share))
    validation, training = (
        pairs.take(np.sort(order[:n_validation])),
        pairs.take(np.sort(order[n_validation:])),
    )
    passed = training.nominal[training.nominal_passes]
    if not np.isfinite(passed).all():
        raise TrainingError("the embedding of the response's nominal events is not finite")
    model = ResponseModel(shape, settings.fits)
    white = whiten(passed, training.nominal_weights)
    model.centre, model.whitening = (torch.from_numpy(v.astype(np.float32)) for v in white)
    losses = []
    for number, head in enumerate(model.heads):
        single = ResponseModel(shape)
        single.centre, single.whitening = model.centre, model.whitening
        losses.append(_fit_one(single, training, validation, settings, settings.seed + number))
        head.load_state_dict(single.heads[0].state_dict())
    model.offset = torch.from_numpy(-yield_constants(model, pairs).astype(np.float32))
    return FittedResponse(model, losses, Learned.of(_gains(model, validation)))


def _gains(model: ResponseModel, validation: Pairs) -> Floats:
    """Return how far the loss is below zero in each of several parts of the validation events.

    A part of a sample with weights is no sample of its own: its weights may add up to nothing. There it is
    what a part adds to the loss of all, the pseudo-value of the jackknife.
    """
    n = _PARTS if len(validation) > 10 * _PARTS else 1
    rows = np.arange(len(validation))
    if validation.weights is None:
        parts = np.array_split(rows, n)
        return np.array([-validation_loss(model, validation.take(part)) for part in parts])
    whole = validation_loss(model, validation)
    if n == 1:
        return np.array([-whole])
    without = [validation_loss(model, validation.take(rows[rows % n != part])) for part in range(n)]
    return (n - 1) * np.array(without) - n * whole


def yield_constants(model: ResponseModel, pairs: Pairs) -> NDArray[np.float64]:
    """Return what is missing in each column for the model to have the yields of the sample.

    With m(nu) = log(N_nu/N_0) - log E_0[e^f], g_k lacks 1/2 [m(+1) - m(-1)] at nu_k = +-1: then
    log E_0[e^{g_k}] - log E_0[e^{-g_k}] = log(N_+/N_-). An even part of m needs a term in nu^2. A linear
    response has none, and leaves it; the constant of D takes it, so that the yields at nu_k = +-1 are
    exact, and of the corners of every plane the part that changes sign with nu_k and with nu_l.
    """
    columns = model.columns(pairs.nominal[pairs.nominal_passes]).astype(np.float64)
    weights = pairs.nominal_weights
    k, order = model.shape.n_nuisances, model.shape.order
    axes = np.eye(k)

    def missing(nu: NDArray[np.float64]) -> float:
        f = columns @ polynomial(nu, order)
        return pairs.log_yield(tuple(nu.tolist())) - _log_mean_exp(f, weights)

    up, down = (np.array([missing(sign * axis) for axis in axes]) for sign in (1.0, -1.0))
    linear: NDArray[np.float64] = 0.5 * (up - down)
    if order == 1:
        return linear
    quadratic = np.diag(up + down)
    for a, b in zip(*np.triu_indices(k, 1), strict=True):
        corners = [(s, r) for s in (1.0, -1.0) for r in (1.0, -1.0)]
        quadratic[a, b] = np.mean([s * r * missing(s * axes[a] + r * axes[b]) for s, r in corners])
    return np.concatenate([linear, quadratic[np.triu_indices(k)]])


def _log_mean_exp(f: Floats, weights: Floats | None) -> float:
    """Return log E[e^f]; raise TrainingError if negative weights leave no positive mean."""
    mean = weighted_mean(np.exp(f), weights)
    if weights is not None and mean <= 0.0:
        raise TrainingError(_NOT_POSITIVE)
    return float(np.log(mean))


def whiten(z: NDArray[np.float32], weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return centre and W: (z - centre) W has unit covariance; directions without spread become zero.

    Events count by the size of their weights, so that the covariance is one.
    """
    size = None if weights is None else np.abs(weights)
    covariance = np.atleast_2d(np.cov(z.T, aweights=size, dtype=np.float64))
    variances, directions = np.linalg.eigh(covariance)
    flat = variances <= 1e-10 * variances.max()
    scale = np.where(flat, 0.0, 1 / np.sqrt(np.where(flat, 1.0, variances)))
    centre = z.mean(axis=0, dtype=np.float64) if size is None else size @ z / size.sum()
    return centre, directions * scale


def _fit_one(
    model: ResponseModel, training: Pairs, validation: Pairs, settings: FitSettings, seed: int
) -> float:
    """Fit a model with one head; the weights that validate best stay in it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in model.heads.modules():
            if isinstance(module, torch.nn.Linear):
                module.reset_parameters()
    size = settings.batch
    if training.weights is not None:
        size = max(size, math.ceil(_FEWEST_EFFECTIVE * len(training) / max(training.n_effective, 1.0)))
    batches = max(1, len(training) // size)
    optimiser = torch.optim.AdamW(
        model.heads.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.learning_rate, total_steps=settings.epochs * batches + 1
    )
    best, best_loss, waited = copy_state(model), validation_loss(model, validation), 0
    for epoch in range(settings.epochs):
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(epoch,)))
        order = stream.permutation(len(training))[: batches * size]
        for number, rows in enumerate(np.array_split(order, batches)):
            loss = batch_loss(model, training.take(np.sort(rows)))
            if not torch.isfinite(loss):
                remedy = "lower source.response.learning_rate"
                if training.weights is not None:
                    remedy += ", or raise source.response.batch or source.splits.response"
                raise TrainingError(
                    f"the loss of the response is not finite in epoch {epoch}, batch {number}: {remedy}"
                )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
        loss_now = validation_loss(model, validation)
        if loss_now < best_loss:
            best, best_loss, waited = copy_state(model), loss_now, 0
        else:
            waited += 1
        if waited >= settings.patience:
            break
    model.load_state_dict(best)
    return best_loss


def batch_loss(model: ResponseModel, pairs: Pairs) -> torch.Tensor:
    """Return L averaged over nu, summed so that what does not move cancels exactly.

    The model is evaluated once for the nominal events, and for those of the shifted ones that moved.
    """
    moved = {nu: np.flatnonzero((z != pairs.nominal).any(axis=1)) for nu, z in pairs.z.items()}
    points = np.concatenate([pairs.nominal, *(pairs.z[nu][rows] for nu, rows in moved.items())])
    columns, *there = model(torch.from_numpy(points)).split([len(pairs), *map(len, moved.values())])
    passes0 = torch.from_numpy(pairs.nominal_passes)
    weights = None if pairs.weights is None else torch.from_numpy(pairs.weights.astype(np.float32))

    def mean(f: torch.Tensor, of: torch.Tensor | None = None) -> torch.Tensor:
        """Return the mean of the events `of`, all unless told."""
        if weights is None:
            return f.mean()
        counts = weights if of is None else weights[of]
        if counts.sum() <= 0.0:
            raise TrainingError(_NOT_POSITIVE)
        return counts @ f / counts.sum()

    losses = []
    for (nu, rows), columns_moved in zip(moved.items(), there, strict=True):
        weight = torch.from_numpy(polynomial(np.array(nu), model.shape.order).astype(np.float32))
        f0 = columns @ weight
        f = f0.index_put((torch.from_numpy(rows),), columns_moved @ weight)
        passes = torch.from_numpy(pairs.passes[nu])
        mean0 = mean(f0[passes0], passes0)
        spread = torch.log(mean(torch.exp(f0[passes0] - mean0), passes0))
        all_pass = bool(passes0.all()) and bool(passes.all())
        moved_by = mean(f - f0) if all_pass else mean(f[passes], passes) - mean0
        losses.append(spread - moved_by)
    return torch.stack(losses).mean()


def validation_loss(model: ResponseModel, pairs: Pairs) -> float:
    """Return L averaged over the nu of the sample, in float64."""
    nominal = model.columns(pairs.nominal[pairs.nominal_passes]).astype(np.float64)
    weights = pairs.nominal_weights
    losses = []
    for nu, z in pairs.z.items():
        weight = polynomial(np.array(nu), model.shape.order)
        shifted = model.columns(z[pairs.passes[nu]]).astype(np.float64)
        counts = None if pairs.weights is None else pairs.weights[pairs.passes[nu]]
        losses.append(_log_mean_exp(nominal @ weight, weights) - weighted_mean(shifted @ weight, counts))
    return float(np.mean(losses))


def response_grid(n_nuisances: int) -> list[Nu]:
    """Return +-1 and +-2 sigma along every axis and, for the mixed terms of D, the corners of every plane."""
    axes = np.eye(n_nuisances)
    points = [size * axis for axis in axes for size in (1.0, -1.0, 2.0, -2.0)]
    for k in range(n_nuisances):
        for m in range(k):
            points += [s * axes[k] + r * axes[m] for s in (1.0, -1.0) for r in (1.0, -1.0)]
    return [tuple(float(x) for x in point) for point in points]
