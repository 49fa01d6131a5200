"""Settings of the tests, and the sizes of the datasets that they are tuned for."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from covad.settings import Clip, Count, Index, Positive, Settings, Size

#: Events that a dataset can be expected to have.
FEWEST_EXPECTED, MOST_EXPECTED = 1.0, 1e8
#: Sigma of the log yield that makes sense: below, the yield is exact; above, it is free.
SIGMAS = (1e-6, 10.0)
#: Standard deviation that a ridge, seen as a prior, gives h.
_Spread = Annotated[Positive, Field(ge=1e-6, le=1e6)]
#: Names of the parts of a joined space, with their numbers of dimensions, in the order of z.
Parts = tuple[tuple[str, Size], ...]


class Sizes(Settings):
    """Events of one dataset: expected data at nu = 0, and reference."""

    expected: Annotated[Positive, Field(le=MOST_EXPECTED)] = 10_000.0
    reference: Annotated[Count, Field(le=10**8)] = 52_000


class NetworkSettings(Settings):
    """The paper's network. `clip` is W, the bound of all weights; `tune` lets the study find it.

    The likelihood has many maxima: `starts` random candidates and `hops` from the best of them are climbed.
    """

    clip: Clip = "tune"
    starts: Size = 1
    hops: Annotated[Index, Field(le=10**4)] = 0
    hidden: Annotated[tuple[Size, ...], Field(min_length=1)] = (4, 4)


class ConvexSettings(Settings):
    """The ridge on a basis of so many `bumps`.

    `capacity` is the mean of t under the null, to which the width of the bumps is tuned: 45 unless told, as
    for the paper's network, less with few bumps or events (see `covad.nplm.convex.capacity`). `spread` is the
    standard deviation that the ridge, seen as a prior, gives h; `seed` draws the centres.
    """

    bumps: Size = 100
    capacity: Annotated[float, Field(gt=1.0)] | None = None
    spread: _Spread = 3.0
    seed: Index = 0

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        told = "capacity" in self.model_fields_set
        if told and self.capacity is not None and self.capacity >= self.bumps:
            raise ValueError(f"capacity {self.capacity:g} needs more than {self.bumps} bumps")
        return self


class AdaptiveSettings(Settings):
    """Convex tests over several widths and ridges, joined by their smallest p.

    Every entry of `capacities` is a scale of so many `bumps`, from wide to narrow; those that the sizes of
    the datasets do not allow are left out. Members are the widest scale alone, with each spread of `widest`,
    all scales together in one ridge, with each of `together`, and every scale alone, with each of `spreads`;
    a spread is that of h, as in `ConvexSettings`.
    """

    capacities: Annotated[tuple[Annotated[float, Field(gt=1.0)], ...], Field(min_length=1, max_length=8)] = (
        10.0,
        20.0,
        45.0,
        90.0,
    )
    bumps: Annotated[tuple[Size, ...], Field(min_length=1, max_length=8)] = (25, 50, 100, 200)
    widest: Annotated[tuple[_Spread, ...], Field(max_length=4)] = (3.0,)
    together: Annotated[tuple[_Spread, ...], Field(max_length=4)] = (3.0, 30.0)
    spreads: Annotated[tuple[_Spread, ...], Field(max_length=4)] = ()
    seed: Index = 0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if len(self.bumps) != len(self.capacities):
            raise ValueError(f"bumps has {len(self.bumps)} entries, capacities {len(self.capacities)}")
        if list(self.capacities) != sorted(set(self.capacities)):
            raise ValueError("capacities must grow from entry to entry")
        if not (self.widest or self.together or self.spreads):
            raise ValueError("at least one entry of widest, together or spreads is needed")
        for key in ("widest", "together", "spreads"):
            spreads = getattr(self, key)
            if len(set(spreads)) < len(spreads):
                raise ValueError(f"{key}: an entry stands twice")
        for capacity, bumps in zip(self.capacities, self.bumps, strict=True):
            if capacity >= bumps:
                raise ValueError(f"capacity {capacity:g} needs more than {bumps} bumps")
        return self
