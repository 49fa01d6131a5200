"""A family of anomalies that nobody tuned for: Gaussian bumps of random place, width and strength.

They live in the latent world, whose density is known: the strength is such that a search which knew place
and width, with no systematic uncertainty, would expect a significance drawn between 5 and 15.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from covad.toys import latent_world as latent

#: Standard deviations, and the significance that a search which knew the bump would expect.
WIDTHS, KNOWN_Z = (0.1, 2.0), (5.0, 15.0)
#: Places are background events, moved away from their mean by this factor.
STRETCH = 1.2
_SAMPLE = 20_000


@dataclass(frozen=True)
class Bump:
    """So many expected events of a Gaussian at `centre`."""

    centre: NDArray[np.float64]
    width: float
    expected: float

    def draw(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Draw a Poisson number of events."""
        return self.sample(rng.poisson(self.expected), rng)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float32]:
        return (self.centre + self.width * rng.standard_normal((n, len(self.centre)))).astype(np.float32)


def background_density(z: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the density of the background of the latent world."""
    u = (z[:, None] - latent._MEANS) / latent._SPREADS
    peaks = latent._FRACTIONS / np.prod(np.sqrt(2.0 * np.pi) * latent._SPREADS, axis=1)
    return np.asarray(np.exp(-0.5 * np.square(u).sum(axis=2)) @ peaks)


def random_bumps(
    number: int, seed: int, background: float = 10_000.0, widths: tuple[float, float] = WIDTHS
) -> list[Bump]:
    """Return so many bumps on top of `background` events."""
    rng = np.random.default_rng(seed)
    places = latent.background(number, rng).astype(np.float64)
    mean = latent._FRACTIONS @ latent._MEANS
    bumps = []
    for place in places:
        width = float(np.exp(rng.uniform(*np.log(widths))))
        shape = Bump(mean + STRETCH * (place - mean), width, 1.0)
        z = shape.sample(_SAMPLE, rng)
        distance = np.square((z - shape.centre) / width).sum(axis=1)
        density = np.exp(-0.5 * distance) / (np.sqrt(2.0 * np.pi) * width) ** z.shape[1]
        ratio = density / (background * background_density(z))
        wanted = rng.uniform(*KNOWN_Z)
        bumps.append(Bump(shape.centre, width, strength(ratio, wanted)))
    return bumps


def strength(ratio: NDArray[np.float64], wanted: float) -> float:
    """Return the S whose Asimov significance is `wanted`; ratio is s/b per expected event of signal."""

    def lacking(log_s: float) -> float:
        x = np.exp(log_s) * ratio
        # int b [(1 + x) log(1 + x) - x], with b = s / ratio and the mean over s
        q = 2.0 * float(np.mean(((1.0 + x) * np.log1p(x) - x) / ratio))
        return q - wanted**2

    return float(np.exp(brentq(lacking, -3.0, 12.0)))
