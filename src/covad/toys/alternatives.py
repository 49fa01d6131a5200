"""The tests that an ensemble can name, by their settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from covad.nplm.convex import ConvexAlternative
from covad.nplm.fit import Alternative
from covad.toys.plan import Source


@dataclass(frozen=True)
class ConvexSettings:
    """h as a ridge on `features` bumps whose centres are drawn from events of the source that no toy uses.

    `spread` is the standard deviation that the ridge, seen as a prior, gives h; `seed` is of the centres.
    """

    features: int = 100
    width_quantiles: tuple[float, ...] = (0.1,)
    spread: float = 1.0
    seed: int = 0

    @property
    def degrees_of_freedom(self) -> int:
        """The bumps and the constant: an upper limit, which the ridge lowers."""
        return self.features + 1

    def describe(self) -> dict[str, Any]:
        return {"kind": "convex", **asdict(self)}

    def build(self, source: Source) -> Alternative:
        return ConvexAlternative.from_pool(
            source.feature_events(), self.features, self.seed, self.width_quantiles, self.spread
        )
