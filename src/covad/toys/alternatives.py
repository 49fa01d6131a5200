"""The tests that an ensemble can name, by their settings. Solvers are imported where toys are computed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from covad.nplm.fit import Alternative
from covad.nplm.rows import count_parameters
from covad.toys.plan import Source


@dataclass(frozen=True)
class NetworkSettings:
    """The paper's network with layers of these `widths`, all weights within +-`clip`."""

    clip: float
    widths: tuple[int, ...] = (4, 4, 4, 1)
    starts: int = 1

    @property
    def degrees_of_freedom(self) -> int:
        """Weights and biases: 45 for 4-4-4-1."""
        return count_parameters(self.widths)

    def describe(self) -> dict[str, Any]:
        return {"kind": "network", **asdict(self)}

    def build(self, source: Source) -> Alternative:
        raise NotImplementedError


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
        from covad.nplm.convex import ConvexAlternative

        return ConvexAlternative.from_pool(
            source.feature_events(), self.features, self.seed, self.width_quantiles, self.spread
        )
