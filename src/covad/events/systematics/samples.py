"""Separate samples: other events of one process, from another generator for instance, which match none.

They are there at nu = +1 and -1 only. The density of the process is then that of the sample. Where there is a
sample for +1 alone, -1 is its mirror image, n(-1) = 2 n(0) - n(+1): the events of the process count twice,
and those of the sample are subtracted. Several samples of one process add up what each changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from covad.errors import CovadError
from covad.events.layout import Events
from covad.events.systematics.variation import Variation, of_processes

UP, DOWN = 1.0, -1.0


@dataclass(frozen=True)
class SeparateSamples:
    """What separate samples take away from the nominal events; `one_sided`: there is none at -1."""

    name: str
    process: str
    one_sided: bool = False

    def shift(self, events: Events, nu: float) -> Variation:
        if nu == 0.0:
            return Variation(events)
        if nu not in (UP, DOWN):
            raise CovadError(
                f"systematic '{self.name}' has separate samples, which are there at nu = -1, 0 and 1 only, "
                f"not at {nu:g}"
            )
        mirrored = nu == DOWN and self.one_sided
        share = -1.0 if mirrored else 1.0
        return Variation(events, taken=np.where(of_processes(events, [self.process]), share, 0.0))


@dataclass(frozen=True)
class Alternative:
    """The events of a separate sample, piece by piece, with their weights beside the nominal events.

    They take part where the nuisance of this number has one of the values of `factors`, which multiply them.
    """

    nuisance: int
    factors: Mapping[float, float]
    pieces: Callable[[], Iterator[Events]]
    sample: str = ""

    def factor(self, nu: tuple[float, ...]) -> float:
        """Return what the events are multiplied by at nu, 0 if they take no part."""
        return self.factors.get(nu[self.nuisance], 0.0)


def sides(one_sided: bool) -> dict[str, dict[float, float]]:
    """Return the separate samples of a systematic, each with its factors by nu."""
    if one_sided:
        return {"up": {UP: 1.0, DOWN: -1.0}}
    return {"up": {UP: 1.0}, "down": {DOWN: 1.0}}
