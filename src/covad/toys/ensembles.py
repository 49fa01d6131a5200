"""Ensembles of pseudo-experiments: what is drawn, how it is tested, and where the random numbers come from.

A toy is a pure function of its ensemble and its index. The number of toys is not part of an ensemble, so a
bigger run reuses the toys of a smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from covad.errors import DatasetError, PlanError
from covad.nplm.dataset import Dataset, Float32, Float64, check_correlation
from covad.nplm.fit import NplmTest
from covad.settings import Matrix, Nu
from covad.storage.digests import canonical, content_digest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from covad.nplm.adaptive.shared import ReferenceSample  # it needs scipy, and reading a study does not

#: Raised whenever a change of covad changes the toys: old blocks are then not mistaken for new ones.
TOY_SCHEMA = 3
#: The same, of convex fits beside a quadratic response: other ensembles keep their identity.
QUADRATIC_CLIMB = 2
#: Toys are computed and stored in blocks that never cross a multiple of this.
BLOCK = 10
#: Sigma beyond which no truth of the prior is thrown: pools have to hold the largest yield.
LARGEST_THROW = 4.0
#: Seeds are spawn keys, whose words have 32 bits.
MAX_TOYS = 2**32


class Treatment(StrEnum):
    """What the test knows about the nuisances."""

    NONE = "none"  # nothing: t = tau (eq:nplm-t)
    PROFILED = "profiled"  # shape and normalisation nuisances are fitted, t = tau - Delta


class Stream(StrEnum):
    """Independent random numbers for the same draw, by what the toys are used for."""

    TOYS = "toys"  # the results
    SCAN = "scan"  # the search for the clip W


@dataclass(frozen=True)
class Draw:
    """What decides the events of a toy, besides its index: nu in units of sigma, sizes as expectations.

    `nu_norm` is the true nuisance of the normalisation, in units of its sigma too. With `prior`, every toy
    throws a truth of its own, nu ~ N(0, S) and nu_norm ~ N(0, 1) where there is one. `correlation` is S, that
    of the auxiliary measurements; None means that they are independent.
    """

    space: str
    treatment: Treatment
    expected: float  # N_D at nu = 0, background only
    n_reference: int
    nu: Nu
    signal: str | None = None
    injected: float = 0.0  # expected signal events on top
    response_order: int = 1
    normalisation_sigma: float | None = 0.1
    nu_norm: float = 0.0
    prior: bool = False
    correlation: Matrix | None = None

    def __post_init__(self) -> None:
        # 0 and -0.0 and 0.0 are one value, and must give one identity
        object.__setattr__(self, "nu", tuple(float(x) + 0.0 for x in self.nu))
        object.__setattr__(self, "nu_norm", float(self.nu_norm) + 0.0)
        object.__setattr__(self, "expected", float(self.expected))
        object.__setattr__(self, "injected", float(self.injected))
        if not (np.isfinite(self.expected) and self.expected > 0 and self.n_reference > 0):
            raise PlanError(f"a toy cannot have {self.expected} data and {self.n_reference} reference events")
        if (self.signal is None) != (self.injected == 0) or self.injected < 0:
            raise PlanError(f"signal {self.signal!r} with {self.injected} injected events is no plan")
        if self.response_order not in (1, 2):
            raise PlanError(f"the response has order 1 or 2, not {self.response_order}")
        if self.nu_norm and not (self.normalisation_sigma and np.isfinite(self.normalisation_sigma)):
            raise PlanError(f"nu_N = {self.nu_norm:g} sigma needs the sigma of a normalisation nuisance")
        if self.prior and self.signal is not None:
            raise PlanError("toys with a signal have one truth, not one thrown from the prior")
        if self.correlation is not None:
            rows = tuple(tuple(float(x) + 0.0 for x in row) for row in self.correlation)
            object.__setattr__(self, "correlation", rows)
            try:
                check_correlation(np.array(rows), len(self.nu))
            except (DatasetError, ValueError) as failure:
                raise PlanError(f"correlation: {failure}") from failure

    @property
    def true_norm(self) -> float:
        """Return the true nuisance of the normalisation as a log yield, 0 where there is none."""
        return self.nu_norm * self.normalisation_sigma if self.nu_norm and self.normalisation_sigma else 0.0

    @property
    def expected_background(self) -> float:
        """Return the expected yield of the background at the true nu_N and nu = 0."""
        return self.expected * float(np.exp(self.true_norm))

    def thrown(self, nu: Nu, rng: np.random.Generator) -> Draw:
        """Return this draw at a truth of the prior: nu as given, nu_norm thrown."""
        floats = self.normalisation_sigma is not None and np.isfinite(self.normalisation_sigma)
        return replace(self, nu=nu, nu_norm=throw_nuisances(1, rng)[0] if floats else 0.0)

    @property
    def largest(self) -> Draw:
        """Return the draw of the largest yield that its toys may have."""
        floats = self.prior and self.normalisation_sigma and np.isfinite(self.normalisation_sigma)
        return replace(self, nu_norm=LARGEST_THROW) if floats else self


def throw_nuisances(number: int, rng: np.random.Generator, correlation: Matrix | None = None) -> Nu:
    """Throw nuisances from their priors, in units of sigma, none farther out than LARGEST_THROW."""
    from scipy.stats import truncnorm  # takes its time, and reading a study does not need it

    thrown = truncnorm.rvs(-LARGEST_THROW, LARGEST_THROW, size=number, random_state=rng)
    return tuple(_correlated(thrown, correlation).tolist())


def prior_points(
    number: int,
    n_nuisances: int,
    seed: int,
    correlation: Matrix | None = None,
    discrete: Collection[int] = (),
) -> tuple[Nu, ...]:
    """Return points that fill the prior N(0, S) evenly: a scrambled Sobol sequence of a power of two.

    Nuisances of the numbers `discrete` exist at -1 and +1 only: they have the sign of what is thrown. If all
    do, points repeat; each is returned once.
    """
    from scipy.stats import qmc, truncnorm  # take their time, and reading a study does not need them

    uniform = qmc.Sobol(n_nuisances, seed=seed).random(number)
    points = _correlated(truncnorm.ppf(uniform, -LARGEST_THROW, LARGEST_THROW), correlation).round(6)
    signed = list(discrete)
    points[:, signed] = np.where(points[:, signed] < 0.0, -1.0, 1.0)
    return tuple(dict.fromkeys(tuple(point) for point in points.tolist()))


def _correlated(independent: Float64, correlation: Matrix | None) -> Float64:
    """Return vectors of N(0, S) from those of N(0, 1)^K, with the same limits."""
    if correlation is None:
        return independent
    return np.clip(independent @ np.linalg.cholesky(correlation).T, -LARGEST_THROW, LARGEST_THROW)


def draw_recipe(draw: Draw) -> dict[str, Any]:
    """Return the draw as the plain data from which seeds and identities are hashed.

    The keys are written out, and frozen: a field of `Draw` that gets another name keeps its key here, or all
    toys of all studies would get other seeds. A field that is added later enters by itself, but only where
    it differs from its default, so that the toys that exist keep theirs.
    """
    recipe = {
        "embedding": draw.space,
        "treatment": draw.treatment.value,
        "expected": draw.expected,
        "n_reference": draw.n_reference,
        "nu": draw.nu,
        "signal": draw.signal,
        "injected": draw.injected,
        "response_order": draw.response_order,
        "normalisation_sigma": draw.normalisation_sigma,
    }
    return recipe | added_fields(draw, {*recipe, "space"})


def added_fields(settings: DataclassInstance, known: Collection[str]) -> dict[str, Any]:
    """Return the fields of a dataclass beyond the `known` ones that differ from their default."""
    added = {}
    for entry in fields(settings):
        if entry.name in known or not entry.compare:
            continue
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        value = getattr(settings, entry.name)
        if value != default:
            added[entry.name] = value
    return added


@dataclass(frozen=True)
class ToySeeds:
    """Separate streams within a toy, so that more data events leave the reference as it was."""

    root: np.random.SeedSequence
    reference: np.random.SeedSequence
    data: np.random.SeedSequence
    auxiliary: np.random.SeedSequence
    fit: np.random.SeedSequence
    truth: np.random.SeedSequence

    @property
    def number(self) -> int:
        """Return 64 bits that stand for the seed of the whole toy."""
        return int(self.root.generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class PoolSizes:
    """The pools that toys share: sizes are those of events of equal weight which fluctuate as much.

    `signed_variance` is what the signs of weights add to the variance of a mean over both pools, for a column
    of unit variance; the sizes know of it.
    """

    events: int  # of the reference, whatever their weights
    reference: float
    data: float
    signed_variance: float = 0.0


class Source(Hashable, Protocol):
    """Where the events of toys come from. Small, frozen and picklable: every worker gets a copy."""

    @property
    def digest(self) -> str:
        """Return a name that changes whenever any of the events would."""
        ...

    def digest_of(self, draw: Draw) -> str:
        """Return a name that changes whenever the events of such toys, or those of the basis, would."""
        ...

    @property
    def n_dimensions(self) -> int:
        """Return the number of dimensions of the latent space."""
        ...

    def throw(self, draw: Draw, seeds: ToySeeds) -> Draw:
        """Return the draw of one toy of the prior, at the truth that it throws."""
        ...

    def draw(self, draw: Draw, seeds: ToySeeds) -> Dataset:
        """Return one toy; of the prior, at the truth that `throw` returned."""
        ...

    def basis_events(self) -> Float32:
        """Return events of the reference that no toy uses: the basis of the convex test comes from them."""
        ...

    def reference_sample(self, n_events: int) -> ReferenceSample:
        """Return so many events of the reference's density, fewer if there are no more, always the same."""

    @property
    def reference_share(self) -> float:
        """Return what one reference event of a toy is worth: 1 without weights, less with uneven ones."""
        ...

    def pool_sizes(self, draw: Draw) -> PoolSizes | None:
        """Return the sizes of the pools if toys share finite ones, None if every toy has fresh events."""
        ...

    def check(self, draw: Draw) -> None:
        """Raise an error that says why such toys cannot be drawn, if they cannot."""
        ...


class TunedTest(Hashable, Protocol):
    """A test by its settings. Small, frozen and picklable too."""

    @property
    def capacity(self) -> float:
        """Return the mean of t under the null, to which the test is tuned; of several, the largest."""
        ...

    @property
    def has_law(self) -> bool:
        """Return whether the law of t is known without toys."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the plain data that enters the ensemble's identity, under frozen keys."""
        ...

    def build(self, source: Source) -> NplmTest: ...


@dataclass(frozen=True)
class Ensemble:
    """Pseudo-experiments of one draw, tested in one way; `seed` is the study's."""

    draw: Draw
    test: TunedTest
    source: Source
    seed: int
    stream: Stream = Stream.TOYS

    def describe(self) -> dict[str, Any]:
        """Return everything that decides the values of the toys, as plain data."""
        return {
            "schema": TOY_SCHEMA,
            "seed": self.seed,
            "source": self.source.digest_of(self.draw),
            "stream": self.stream.value,
            "draw": draw_recipe(self.draw),
            "test": self.test.describe(),
            **({"climb": QUADRATIC_CLIMB} if self._climbs_beside_quadratic else {}),
            **added_fields(self, ("draw", "test", "source", "seed", "stream")),
        }

    @property
    def _climbs_beside_quadratic(self) -> bool:
        """Return whether convex fits see a quadratic response."""
        profiled = self.draw.treatment is Treatment.PROFILED
        return profiled and self.draw.response_order == 2 and self.test.has_law

    @cached_property
    def identity(self) -> str:
        """Return the name of the ensemble on disk."""
        return content_digest(self.describe())[:20]

    @cached_property
    def _seed_words(self) -> tuple[int, ...]:
        """Hash the draw and the stream only: two tests, or two clips W, see the same datasets.

        Any difference of nu, signal, size, treatment or stream gives independent toys, as comparisons
        between ensembles assume.
        """
        digest = hashlib.sha256(canonical([draw_recipe(self.draw), self.stream.value])).digest()
        return tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))

    def seeds(self, index: int) -> ToySeeds:
        """Return the random numbers of toy `index`."""
        root = np.random.SeedSequence(self.seed, spawn_key=(*self._seed_words, index))
        return ToySeeds(root, *root.spawn(5))


@dataclass(frozen=True)
class Request:
    """The first `toys` toys of an ensemble are wanted."""

    ensemble: Ensemble
    toys: int

    def __post_init__(self) -> None:
        if not 0 <= self.toys < MAX_TOYS:
            raise PlanError(f"an ensemble cannot have {self.toys} toys")


@dataclass(frozen=True)
class Block:
    """Toys start <= index < stop of an ensemble: what one worker computes at a time."""

    ensemble: Ensemble
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def label(self) -> str:
        """Name the toys in a message."""
        return f"{self.start} to {self.stop - 1} of ensemble {self.ensemble.identity}"


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of `total`, for array jobs."""

    number: int = 1
    total: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.total:
            raise PlanError(
                f"there is no shard {self.number} of {self.total}: shards are written I/N, with I from 1 to N"
            )

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a shard that is written I/N."""
        number, slash, total = text.partition("/")
        if not (slash and number.isdecimal() and total.isdecimal()):
            raise PlanError(f"a shard is written I/N, for instance 2/8, not '{text}'")
        return cls(int(number), int(total))

    def blocks(self, requests: Sequence[Request]) -> Iterator[Block]:
        """Yield this shard's blocks. They depend on the requests alone, not on what is done already."""
        starts = ((request, start) for request in requests for start in range(0, request.toys, BLOCK))
        for request, start in islice(starts, self.number - 1, None, self.total):
            yield Block(request.ensemble, start, min(start + BLOCK, request.toys))


def contiguous(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield sorted indices as half-open ranges."""
    start = previous = None
    for index in indices:
        if start is None or previous is None:
            start = index
        elif index != previous + 1:
            yield start, previous + 1
            start = index
        previous = index
    if start is not None and previous is not None:
        yield start, previous + 1
