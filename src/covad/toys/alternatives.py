"""The tests that an ensemble can name, by their settings. Solvers are imported where toys are computed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from covad.nplm.capacity import DatasetSizes, default_capacity, with_capacity
from covad.nplm.dataset import Float32
from covad.nplm.fit import Alternative
from covad.nplm.rows import count_parameters
from covad.toys.plan import Source

if TYPE_CHECKING:
    from covad.nplm.convex import ConvexAlternative
    from covad.nplm.features import GaussianFeatures


@dataclass(frozen=True)
class NetworkSettings:
    """The paper's network with layers of these `widths`, all weights within +-`clip`.

    The likelihood has many maxima: `starts` random candidates and `hops` from the best of them are climbed.
    """

    clip: float
    widths: tuple[int, ...] = (4, 4, 4, 1)
    starts: int = 1
    hops: int = 0

    @property
    def degrees_of_freedom(self) -> int:
        """Weights and biases: 45 for 4-4-4-1."""
        return count_parameters(self.widths)

    def describe(self) -> dict[str, Any]:
        return {"kind": "network", **asdict(self)}

    def build(self, source: Source) -> Alternative:  # noqa: ARG002
        from covad.nplm.alternatives import Network
        from covad.nplm.starts import Search

        return Network(self.widths, self.clip, Search(starts=self.starts, hops=self.hops))


@dataclass(frozen=True)
class ConvexSettings:
    """h as a ridge on `features` bumps whose centres are drawn from events of the source that no toy uses.

    They are as wide as makes `capacity` the mean of t under the null, in datasets of `expected` events and
    a `reference`. `spread` is the standard deviation that the ridge, seen as a prior, gives h; `seed` is of
    the centres.
    """

    features: int = 100
    capacity: float | None = None
    spread: float = 3.0
    seed: int = 0
    expected: float = 10_000.0
    reference: int = 52_000
    #: Features and ridge as they were chosen once, in JSON; without it every process chooses them again.
    model: str | None = field(default=None, compare=False, repr=False)

    @property
    def target(self) -> float:
        """The mean of t under the null, to which the width is tuned."""
        return default_capacity(self.features, self.expected) if self.capacity is None else self.capacity

    @property
    def degrees_of_freedom(self) -> int:
        return round(self.target)

    def describe(self) -> dict[str, Any]:
        settings = asdict(self)
        del settings["model"]  # it follows from the rest and the source
        return {"kind": "convex", **settings, "capacity": self.target}

    def chosen(self, source: Source) -> ConvexSettings:
        """With the model, for a run directory and for workers."""
        model = self.choose(source.feature_events())
        features = cast("GaussianFeatures", model.features)
        content = {
            "ridge": model.ridge,
            "features": features.settings(),
            "arrays": {name: array.tolist() for name, array in features.arrays().items()},
        }
        return replace(self, model=json.dumps(content))

    def build(self, source: Source) -> Alternative:
        return self.choose(source.feature_events()) if self.model is None else _restored(self.model)

    def choose(self, events: Float32) -> ConvexAlternative:
        """Centres, width and ridge by their rules, from events that no toy uses."""
        sizes = DatasetSizes(self.expected, self.reference)
        return with_capacity(events, self.features, self.seed, self.capacity, self.spread, sizes)


def _restored(model: str) -> ConvexAlternative:
    from covad.nplm.convex import ConvexAlternative
    from covad.nplm.features import GaussianFeatures

    content = json.loads(model)
    arrays = {name: np.array(values) for name, values in content["arrays"].items()}
    return ConvexAlternative(GaussianFeatures.restore(arrays, content["features"]), content["ridge"])
