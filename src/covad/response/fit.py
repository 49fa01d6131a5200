"""Fit of the response on a frozen space: one loss for nuisances of every kind.

The loss is the negative log likelihood of the tilted model n_0 e^{f - eps(nu)} for the shifted sample,

    L(nu) = log E_0[e^f] - E_nu[f] = (log E_0[e^f] - E_0[f]) - (E_nu[f] - E_0[f]),   f = nu.g + 1/2 nu.D.nu.

Its minimum is the log density ratio up to a constant, as for the paper's quadratic loss. Written this way,
the second term is a mean of differences within pairs, which vanishes for all events that the shift leaves
alone: the noise of the ratio mostly cancels. The first is of second order in f.

Nuisances that give events other weights leave z alone: the network is evaluated for the nominal events, and

    E_nu[f] - E_0[f] = sum_i (a_i(nu) - a_i(0)) f(z_i),    a_i = w_i / sum w.

A sample that was simulated apart is such a sum too: of its own events, less nominal ones. The noise of its
ratio does not cancel.

L does not see the constant, which is the change of the yield. `yield_constants` takes it from the numbers of
events that pass the selection at each nu.

Where events have weights, all means and numbers are sums with these weights and their signs: E[f] is
sum w f / sum w. With negative weights E_0[e^f] is positive only if there are events enough. So batches then
have `_FEWEST_EFFECTIVE` effective events at least, and a mean that is not positive ends the fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.checkpoint import copy_state
from covad.embedding.metrics import Learned
from covad.errors import TrainingError
from covad.response.model import GroupedHead, ResponseModel, ResponseShape
from covad.response.pairs import Floats, Pairs
from covad.response.settings import FitSettings
from covad.settings import Nu

#: Parts of the validation events from which the error of a loss is taken.
_PARTS = 10
#: Effective events of a batch with weights: their sum is then known to 5 %, and not negative by chance.
_FEWEST_EFFECTIVE = 400
#: Rows that the network is given at once in training; more are taken point by point, to spare memory.
_TOGETHER = 1 << 18
_NOT_POSITIVE = (
    "negative weights leave a part of the events that the response is fitted on without a positive sum: "
    "raise source.splits.response, or source.response.batch"
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
        raise TrainingError("z of the response's nominal events is not finite")
    model = ResponseModel(shape, settings.fits)
    white = whiten(passed, training.nominal_weights)
    model.centre, model.whitening = (torch.from_numpy(v.astype(np.float32)) for v in white)
    groups = shape.groups
    losses = [0.0] * settings.fits
    for place, group in enumerate(groups):
        learn, judge = training, validation
        if len(groups) > 1:
            learn, judge = (sample.of_nuisances(group) for sample in (training, validation))
        for number, head in enumerate(model.heads):
            single = ResponseModel(shape.of_group(group) if len(groups) > 1 else shape)
            single.centre, single.whitening = model.centre, model.whitening
            drawn = _bootstrapped(learn, settings.seed, number) if settings.bootstrap else learn
            loss = _fit_one(single, drawn, judge, settings, settings.seed + number)
            losses[number] += loss * (len(judge.z) / len(validation.z))
            target = head.parts[place] if isinstance(head, GroupedHead) else head
            target.load_state_dict(single.heads[0].state_dict())
    model.offset = torch.from_numpy(-yield_constants(model, pairs).astype(np.float32))
    return FittedResponse(model, losses, Learned.of(_gains(model, validation)))


def _bootstrapped(pairs: Pairs, seed: int, number: int) -> Pairs:
    """Return as many events, drawn anew with repetitions."""
    draws = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1)))
    return pairs.take(np.sort(draws.integers(0, len(pairs), len(pairs))))


def _gains(model: ResponseModel, validation: Pairs) -> Floats:
    """Return how far the loss is below zero in each of several parts of the validation events.

    A part of a sample with weights or with extra events is no sample of its own: its weights may add up to
    nothing. There it is what a part adds to the loss of all, the pseudo-value of the jackknife.
    """
    n = _PARTS if len(validation) > 10 * _PARTS else 1
    rows = np.arange(len(validation))
    if validation.weights is None and validation.plain:
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
    exact, and of the corners of a plane the part that changes sign with nu_k and with nu_l.

    A nuisance that exists on one side only lacks m there, times the sign: what the other side does is the
    mirror image by assumption, and its D has no constant.
    """
    columns = model.columns(pairs.nominal[pairs.nominal_passes]).astype(np.float64)
    weights = pairs.nominal_weights
    k = model.shape.n_nuisances
    axes = np.eye(k)

    def missing(nu: NDArray[np.float64]) -> float:
        f = columns @ model.shape.polynomial(nu)
        return pairs.log_yield(tuple(nu.tolist())) - _log_mean_exp(f, weights)

    sides = one_sided(tuple(pairs.passes), k)
    linear = np.zeros(k)
    quadratic = dict.fromkeys(model.shape.terms, 0.0)
    for a, axis in enumerate(axes):
        if a in sides:
            linear[a] = sides[a] * missing(sides[a] * axis)
            continue
        up, down = missing(axis), missing(-axis)
        linear[a] = 0.5 * (up - down)
        if (a, a) in quadratic:
            quadratic[a, a] = up + down
    for a, b in quadratic:
        if a != b:
            corners = [(s, r) for s in (1.0, -1.0) for r in (1.0, -1.0)]
            quadratic[a, b] = float(np.mean([s * r * missing(s * axes[a] + r * axes[b]) for s, r in corners]))
    return np.concatenate([linear, list(quadratic.values())])


def one_sided(points: Sequence[Nu], n_nuisances: int) -> dict[int, float]:
    """Return the nuisances that exist at +1 alone or at -1 alone, with the sign of that side."""
    axes, known = np.eye(n_nuisances), set(points)
    there = [[sign for sign in (1.0, -1.0) if tuple((sign * axis).tolist()) in known] for axis in axes]
    return {k: signs[0] for k, signs in enumerate(there) if len(signs) == 1}


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
            optimiser.zero_grad()
            for loss in batch_losses(model, training.take(np.sort(rows))):
                if not torch.isfinite(loss):
                    remedy = "lower source.response.learning_rate"
                    if training.weights is not None:
                        remedy += ", or raise source.response.batch or source.splits.response"
                    raise TrainingError(
                        f"the loss of the response is not finite in epoch {epoch}, batch {number}: {remedy}"
                    )
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


def batch_losses(model: ResponseModel, pairs: Pairs) -> Iterator[torch.Tensor]:
    """Return L averaged over nu, in parts that add up to it; each is forgotten before the next is made.

    The model is evaluated once for the nominal events, and for those of the shifted ones that moved.
    """
    none = np.zeros(0, dtype=np.int64)
    moved = {
        nu: none if z is pairs.nominal else np.flatnonzero((z != pairs.nominal).any(axis=1))
        for nu, z in pairs.z.items()
    }
    if pairs.plain and len(pairs) + sum(map(len, moved.values())) <= _TOGETHER:
        yield _paired_loss(model, pairs, moved)
        return
    points = list(pairs.z)
    polynomials = np.stack([model.shape.polynomial(np.array(nu)) for nu in points], axis=1)
    nominal, *there = (_shares(counts) for counts in (pairs.nominal_counts, *map(pairs.counts, points)))
    # of E_nu[f] the events that did not move, less E_0[f]
    differences = np.stack(there, axis=1) - nominal[:, None]
    for column, rows in enumerate(moved.values()):
        differences[rows, column] = -nominal[rows]
    weights, shares, rest = (
        torch.from_numpy(x.astype(np.float32)) for x in (polynomials, nominal, differences)
    )
    f0 = model(torch.from_numpy(pairs.nominal)) @ weights
    spread = torch.log(shares @ torch.exp(f0 - shares @ f0))
    # log E_0[e^{f - E_0[f]}] - (E_nu[f] - E_0[f])
    yield (spread.sum() - (rest * f0).sum()) / len(points)
    for column, (nu, rows) in enumerate(moved.items()):
        passing = rows[there[column][rows] != 0.0]
        if len(passing):
            f = model(torch.from_numpy(pairs.z[nu][passing])) @ weights[:, column]
            yield -(torch.from_numpy(there[column][passing].astype(np.float32)) @ f) / len(points)


def _shares(counts: Floats) -> Floats:
    """Return counts in units of their sum; raise TrainingError if that is not positive."""
    if counts.sum() <= 0.0:
        raise TrainingError(_NOT_POSITIVE)
    return np.asarray(counts / counts.sum())


def _paired_loss(model: ResponseModel, pairs: Pairs, moved: Mapping[Nu, NDArray[np.int64]]) -> torch.Tensor:
    """Return L averaged over nu of events that move and keep their weights, evaluated all at once."""
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
        weight = torch.from_numpy(model.shape.polynomial(np.array(nu)).astype(np.float32))
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
    return float(np.mean(list(point_losses(model, pairs).values())))


def point_losses(model: ResponseModel, pairs: Pairs) -> dict[Nu, float]:
    """Return L at every nu of the sample, in float64."""
    nominal = model.columns(pairs.nominal[pairs.nominal_passes]).astype(np.float64)
    weights = pairs.nominal_weights
    everywhere = None
    if any(z is pairs.nominal for z in pairs.z.values()):
        everywhere = model.columns(pairs.nominal)
    losses = {}
    for nu, z in pairs.z.items():
        weight, there = model.shape.polynomial(np.array(nu)), pairs.passes[nu]
        columns = (
            everywhere[there] if everywhere is not None and z is pairs.nominal else model.columns(z[there])
        )
        counts = pairs.weights_at(nu)
        mean = weighted_mean(columns.astype(np.float64) @ weight, None if counts is None else counts[there])
        losses[nu] = _log_mean_exp(nominal @ weight, weights) - mean
    return losses
