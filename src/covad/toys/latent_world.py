"""A latent world whose densities are known exactly: what tests, benchmarks and the latent example draw from.

Background: a mixture of Gaussians in four dimensions. A nuisance tilts it: n(z|nu) = n(z|0) e^{nu.g(z)} with
bounded g, so that the log density ratio is linear in nu without approximation, for any nu, and the yield
ratio is E_0[e^{nu.g}]. Drawing is exact too: a Poisson number of candidates is thinned with probability
e^{nu.g - max}, which gives the tilted Poisson process, yield included. Fresh events for every toy: no pools.

Samples with weights have the background as their density, too: they are drawn from another one, and weighted
with the ratio, or with signs of that mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import DatasetError
from covad.nplm.dataset import Dataset, Normalisation, Response

N_DIMENSIONS = 4
#: What its one signal is called.
SIGNAL = "signal"
#: Mixture: fraction, mean and spread of each component; the spread is a diagonal.
_FRACTIONS = np.array([0.59, 0.34, 0.07])
_EDGES = np.cumsum(_FRACTIONS)[:-1]
_MEANS = np.array([[-0.6, 0.3, 0.0, 0.4], [1.0, -0.8, 0.5, -0.6], [0.2, 1.3, -1.8, -0.5]], dtype=np.float32)
_SPREADS = np.array([[0.7, 0.9, 0.8, 1.0], [0.8, 0.6, 1.0, 0.7], [0.4, 0.5, 0.4, 0.6]], dtype=np.float32)
#: The signal sits off the bulk, and is narrow.
_SIGNAL_MEAN = np.array([1.2, 1.0, 1.2, 0.8], dtype=np.float32)
_SIGNAL_SPREAD = np.float32(0.35)
#: As many nuisances as there can be.
MOST_NUISANCES = 50
#: Nuisance k acts as amplitude * tanh(direction . z + offset); the first three were chosen by hand.
_FIRST_AMPLITUDES = (0.06, 0.04, 0.03)
_FIRST_DIRECTIONS = ((0.9, -0.5, 0.2, 0.0), (0.0, 0.6, 0.7, -0.4), (0.3, 0.2, -0.5, 0.8))
_FIRST_OFFSETS = (0.1, -0.2, 0.0)
#: Amplitudes of the others, in turns: 10 000 events constrain the first, not the last. All fifty add up to
#: 0.62, so that thinning at nuisances thrown from their priors keeps six of ten candidates.
_CYCLE = (0.025, 0.01, 0.005, 0.002)
#: Root of x^6 = x + 1: multiples of its inverse powers fill five dimensions evenly.
_EVEN = 1.1347241384015194


def _tilts() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Return amplitudes, directions and offsets of all nuisances."""
    k = np.arange(1, MOST_NUISANCES - len(_FIRST_AMPLITUDES) + 1)
    even = 2.0 * ((0.5 + np.outer(k, _EVEN ** -np.arange(1.0, 6.0))) % 1.0) - 1.0
    directions, offsets = even[:, :N_DIMENSIONS], even[:, N_DIMENSIONS]
    directions = directions / np.sqrt(np.square(directions).sum(axis=1, keepdims=True))
    amplitudes = np.resize(_CYCLE, len(k))
    return (
        np.concatenate([_FIRST_AMPLITUDES, amplitudes]).astype(np.float32),
        np.concatenate([_FIRST_DIRECTIONS, directions]).astype(np.float32),
        np.concatenate([_FIRST_OFFSETS, offsets]).astype(np.float32),
    )


_AMPLITUDES, _DIRECTIONS, _OFFSETS = _tilts()
#: Events drawn at a time: their arrays stay in the cache, and are too small to be returned to the system.
_CHUNK = 4096


def _check_number(n_nuisances: int) -> None:
    if n_nuisances > MOST_NUISANCES:
        raise DatasetError(f"the latent world has {MOST_NUISANCES} nuisances, not {n_nuisances}")


def background(n_events: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw from the nominal background density."""
    z = np.empty((n_events, N_DIMENSIONS), dtype=np.float32)
    for start in range(0, n_events, _CHUNK):
        chunk = z[start : start + _CHUNK]
        uniform = rng.random(len(chunk))
        component = np.zeros(len(chunk), dtype=np.intp)
        for edge in _EDGES:
            component += uniform >= edge
        # standard normal values, in pairs by radius and angle (Box and Muller), which is faster
        pairs = chunk.reshape(2, -1)
        angle = rng.random(pairs.shape[1], dtype=np.float32)
        angle *= 2.0 * np.pi
        np.cos(angle, out=pairs[0])
        np.sin(angle, out=pairs[1])
        pairs *= np.sqrt(2.0 * rng.standard_exponential(pairs.shape[1], dtype=np.float32))
        chunk *= _SPREADS.take(component, axis=0)
        chunk += _MEANS.take(component, axis=0)
    return z


def signal(n_events: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw from the signal density."""
    z = rng.standard_normal((n_events, N_DIMENSIONS), dtype=np.float32)
    z *= _SIGNAL_SPREAD
    z += _SIGNAL_MEAN
    return z


def response(z: NDArray[np.float32], n_nuisances: int = 1) -> NDArray[np.float32]:
    """Return the exact g(z), (events, nuisances)."""
    _check_number(n_nuisances)
    g: NDArray[np.float32] = z @ _DIRECTIONS[:n_nuisances].T
    g += _OFFSETS[:n_nuisances]
    np.tanh(g, out=g)
    g *= _AMPLITUDES[:n_nuisances]
    return g


def tilted_background(
    expected: float, nu: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Draw a Poisson sample of n(z|0) e^{nu.g(z)}, with `expected` events at nu = 0."""
    _check_number(len(nu))
    bound = float(np.abs(nu) @ _AMPLITUDES[: len(nu)])
    candidates = background(rng.poisson(expected * np.exp(bound)), rng)
    accept = np.exp(response(candidates, len(nu)) @ nu - bound)
    return candidates.compress(rng.random(len(candidates)) < accept, axis=0)


def weighted_background(
    n_events: int, rng: np.random.Generator, spread: float, tilt: float = 0.0
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Draw events with positive weights, log-normal with this `spread`, whose density is the background.

    With a `tilt` the events are drawn from another density, and the weights make up for it: they vary by
    e^{+-tilt} along the first coordinate.
    """
    z = _thinned(n_events, rng, lambda z: np.exp(-tilt * (np.tanh(z[:, 0]) + 1.0)))
    logarithm = rng.normal(-0.5 * spread**2, spread, n_events)
    return z, np.exp(tilt * np.tanh(z[:, 0].astype(np.float64)) + logarithm)


def signed_background(
    n_events: int, rng: np.random.Generator, negative: tuple[float, float] = (0.05, 0.4), uneven: float = 1.0
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Draw events with weights of both signs, whose density is the background.

    The share of `negative` ones grows along the first coordinate from one value to the other where all
    weights are +-1; the negative ones are `uneven` times as large and as rare.
    """
    low, high = negative

    def mean(z: NDArray[np.float32]) -> NDArray[np.float64]:
        growth = 1.0 / (1.0 + np.exp(-1.5 * z[:, 0].astype(np.float64)))
        return 1.0 - 2.0 * (low + (high - low) * growth)

    z = _thinned(n_events, rng, lambda z: (1.0 - 2.0 * high) / mean(z))
    share = 0.5 * (1.0 - mean(z)) / uneven
    positive = (mean(z) + uneven * share) / (1.0 - share)
    return z, np.where(rng.random(n_events) < share, -uneven, positive)


def _thinned(
    n_events: int,
    rng: np.random.Generator,
    accept: Callable[[NDArray[np.float32]], NDArray[np.floating[Any]]],
) -> NDArray[np.float32]:
    """Draw background events that are accepted with a probability which depends on z."""
    parts: list[NDArray[np.float32]] = []
    while sum(map(len, parts)) < n_events:
        z = background(n_events, rng)
        parts.append(z.compress(rng.random(n_events) < accept(z), axis=0))
    return np.concatenate(parts)[:n_events]


@dataclass(frozen=True)
class LatentWorld:
    """Sizes of a latent toy; the defaults are those of the paper.

    `correlation` is the matrix of the auxiliary measurements, which are independent if it is None.
    """

    n_reference: int = 52_000
    expected: float = 10_000.0
    n_nuisances: int = 1
    normalisation_sigma: float | None = 0.1
    correlation: NDArray[np.float64] | None = None

    def toy(
        self, rng: np.random.Generator, nu: NDArray[np.float64] | float = 0.0, expected_signal: float = 0.0
    ) -> Dataset:
        """Draw one pseudo-experiment at the true nuisances nu, auxiliary values thrown around the truth."""
        k = self.n_nuisances
        truth = np.broadcast_to(np.asarray(nu, dtype=np.float64), (max(k, np.size(nu)),))
        reference = background(self.n_reference, rng)
        parts = [tilted_background(self.expected, truth, rng)]
        if expected_signal > 0:
            parts.append(signal(rng.poisson(expected_signal), rng))
        data = np.concatenate(parts)
        normalisation = None
        if self.normalisation_sigma is not None:
            sigma = self.normalisation_sigma
            normalisation = Normalisation(sigma, measured=float(rng.normal(0.0, sigma)))
        return Dataset(
            reference=reference,
            data=data,
            weights=np.full(self.n_reference, self.expected / self.n_reference),
            reference_response=Response(response(reference, k)),
            data_response=Response(response(data, k)),
            measured=throw_auxiliary(truth[:k], self.correlation, rng),
            normalisation=normalisation,
            correlation=self.correlation,
        )


def throw_auxiliary(
    nu: NDArray[np.float64], correlation: NDArray[np.float64] | None, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Throw the auxiliary values of the shape nuisances around the truth: nu0 ~ N(nu, S)."""
    if correlation is None:
        return rng.normal(nu, 1.0)
    return np.asarray(nu + np.linalg.cholesky(correlation) @ rng.normal(0.0, 1.0, len(nu)))
