"""How well and how fast the response of 24 nuisances is fitted: a network for each, or one for all.

Ten nuisances move all events of a Gaussian mixture, ten give them other weights, four are normalisations of
its processes. Their exact responses are known (`tests/response_world.py`).

    PYTHONPATH=tests python benchmarks/many_nuisances.py --events 100000 --epochs 8
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from response_world import Mixture

from covad.response.fit import fit_response
from covad.response.model import ResponseShape
from covad.response.pairs import Pairs
from covad.response.settings import FitSettings

K, MOVING, WEIGHTED = 24, 10, 20
#: Events of the dataset for which the error of g is told.
EXPECTED = 10_000
Floats = NDArray[np.float64]


def direction(k: int) -> Floats:
    u = np.zeros(4)
    u[k % 4] = 1.0
    u[(k + 1 + k // 4) % 4] += 0.5 * (-1) ** k
    return u / np.linalg.norm(u)


def step(k: int) -> Floats:
    """0.02 to 0.3 in units of the width of the first process."""
    return 0.02 * 1.35**k * direction(k)


def log_weight(z: Floats, k: int) -> Floats:
    return 0.01 * 1.3 ** (k - MOVING) * np.tanh(z @ direction(k) + 0.3 * z[:, k % 4] ** 2 - 0.5)


def rate(k: int) -> float:
    return 1.0 + 0.02 * (k - WEIGHTED + 2)


def sample(n_events: int, seed: int) -> Pairs:
    world, shifted = Mixture(n_events, seed), {}
    z = world.z.astype(np.float64)
    for k in range(K):
        for size in (1.0, -1.0, 2.0, -2.0):
            nu = tuple((size * np.eye(K)[k]).tolist())
            if k < MOVING:
                shifted[nu] = world.at_step(size * step(k))
            elif k < WEIGHTED:
                shifted[nu] = world.at_weights(size * log_weight(z, k))
            else:
                shifted[nu] = world.at_normalisation(k % 3, rate(k) ** size)
    return Pairs.align(world.embedded(), shifted)


def exact(z: Floats, k: int) -> Floats:
    if k < MOVING:
        return 0.5 * (Mixture.log_shift(z, step(k)) - Mixture.log_shift(z, -step(k)))
    if k < WEIGHTED:
        return log_weight(z, k)
    return np.log(rate(k)) * Mixture.probability(z, k % 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--networks", choices=("each", "one", "both"), default="both")
    asked = parser.parse_args()
    pairs, fresh = sample(asked.events, seed=1), Mixture(100_000, seed=2).z
    truths = np.stack([exact(fresh.astype(np.float64), k) for k in range(K)], axis=1)
    for name, cross in (("each", ()), ("one", None)):
        if asked.networks not in (name, "both"):
            continue
        began = time.process_time()
        settings = FitSettings(epochs=asked.epochs, seed=1)
        model = fit_response(pairs, ResponseShape(4, K, cross=cross), settings).model
        seconds = time.process_time() - began
        errors = (model.columns(fresh) - truths).std(axis=0)
        relative = errors / truths.std(axis=0)
        parts = np.split(relative, [MOVING, WEIGHTED])
        print(f"{name}: {seconds:.0f} s CPU, N E[(dg)^2] {EXPECTED * np.square(errors).sum():.1f}")
        for kind, values in zip(("shifts", "weights", "normalisations"), parts, strict=True):
            print(f"  {kind}: {values.min():.3f} to {values.max():.3f}", np.round(values, 3).tolist())


if __name__ == "__main__":
    main()
