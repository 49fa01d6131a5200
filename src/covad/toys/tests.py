"""The tests that an ensemble can name, by their settings. Solvers are imported where toys are computed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from covad.nplm.convex.capacity import DatasetSizes, default_capacity, with_capacity
from covad.nplm.dataset import Float32
from covad.nplm.fit import NplmTest
from covad.nplm.network.architecture import count_parameters
from covad.toys.ensembles import Source, added_fields

if TYPE_CHECKING:
    from covad.nplm.convex.basis import GaussianBasis
    from covad.nplm.convex.convex import ConvexTest


@dataclass(frozen=True)
class TunedNetwork:
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
        """Return the settings under frozen keys: the identity of stored toys is hashed from them."""
        settings = {
            "kind": "network",
            "clip": self.clip,
            "widths": self.widths,
            "starts": self.starts,
            "hops": self.hops,
        }
        return settings | added_fields(self, settings)

    def build(self, source: Source) -> NplmTest:  # noqa: ARG002
        from covad.nplm.network.network import NetworkTest
        from covad.nplm.network.search import Search

        return NetworkTest(self.widths, self.clip, Search(starts=self.starts, hops=self.hops))


@dataclass(frozen=True)
class TunedConvex:
    """h as a ridge on so many `bumps` whose centres are drawn from events of the source that no toy uses.

    They are as wide as makes `capacity` the mean of t under the null, in datasets of `expected` events and
    a `reference`. `spread` is the standard deviation that the ridge, seen as a prior, gives h; `seed` is of
    the centres.
    """

    bumps: int = 100
    capacity: float | None = None
    spread: float = 3.0
    seed: int = 0
    expected: float = 10_000.0
    reference: int = 52_000
    #: Basis and ridge as they were chosen once, in JSON; without it every process chooses them again.
    model: str | None = field(default=None, compare=False, repr=False)

    @property
    def target(self) -> float:
        """The mean of t under the null, to which the width is tuned."""
        return default_capacity(self.bumps, self.expected) if self.capacity is None else self.capacity

    @property
    def degrees_of_freedom(self) -> int:
        return round(self.target)

    def describe(self) -> dict[str, Any]:
        settings = asdict(self)
        del settings["model"]  # it follows from the rest and the source
        return {"kind": "convex", **settings, "capacity": self.target}

    def chosen(self, source: Source) -> TunedConvex:
        """With the model, for a run directory and for workers."""
        model = self.choose(source.basis_events())
        basis = cast("GaussianBasis", model.basis)
        content = {
            "ridge": model.ridge,
            "basis": basis.settings(),
            "arrays": {name: array.tolist() for name, array in basis.arrays().items()},
        }
        return replace(self, model=json.dumps(content))

    def build(self, source: Source) -> NplmTest:
        return self.choose(source.basis_events()) if self.model is None else _restored(self.model)

    def choose(self, events: Float32) -> ConvexTest:
        """Centres, width and ridge by their rules, from events that no toy uses."""
        sizes = DatasetSizes(self.expected, self.reference)
        return with_capacity(events, self.bumps, self.seed, self.capacity, self.spread, sizes)


def _restored(model: str) -> ConvexTest:
    from covad.nplm.convex.basis import GaussianBasis
    from covad.nplm.convex.convex import ConvexTest

    content = json.loads(model)
    arrays = {name: np.array(values) for name, values in content["arrays"].items()}
    return ConvexTest(GaussianBasis.restore(arrays, content["basis"]), content["ridge"])
