"""The study: which events, which tests, which ensembles of toys."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from covad.errors import UnknownNameError
from covad.nplm.settings import (
    MOST_EXPECTED,
    SIGMAS,
    AdaptiveSettings,
    ConvexSettings,
    NetworkSettings,
    Sizes,
)
from covad.settings import Index, NuEntry, Positive, Real, Settings, ToyCount
from covad.study.points import nuisances_of, numbered_points
from covad.study.sources import AnySource, Collisions, LatentSection, PoolSection
from covad.study.systematics import SamplesEntry
from covad.toys import latent_world as latent
from covad.toys.backends.dask import BatchCluster
from covad.toys.ensembles import Treatment

#: Events of a signal; as many as a dataset can have.
_Yield = Annotated[Positive, Field(le=MOST_EXPECTED)]
#: True nu_N in units of its sigma.
_Yields = Annotated[Real, Field(ge=-5.0, le=5.0)]
#: The least distance of two of them; toys are drawn at 0, too.
_NEAREST_YIELDS = 0.25
#: `Treatment.NONE` in labels.
_NO_NUISANCES = "no nuisances"
TestName = Literal["network", "convex", "adaptive"]
#: The tests that a study may have, in the order of tables.
TESTS: tuple[TestName, ...] = get_args(TestName)
#: Whose p-value is quoted; joint is the smaller p of network and convex test.
Rule = Literal["adaptive", "convex", "network", "joint"]


class Tests(Settings):
    """The tests to run, one or several."""

    __test__ = False

    network: NetworkSettings | None = None
    convex: ConvexSettings | None = None
    adaptive: AdaptiveSettings | None = None

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if self.network is None and self.convex is None and self.adaptive is None:
            raise ValueError("at least one of network, convex and adaptive is needed")
        return self

    @property
    def names(self) -> tuple[TestName, ...]:
        """Return which tests there are."""
        return tuple(name for name in TESTS if getattr(self, name) is not None)


class Configuration(Settings):
    """What the test is given: a space, what it knows about nuisances, and the order of the response in nu.

    `space` may be left out where the source has one only. Other sizes, other points nu, fewer toys and
    leaving out the signals are possible for a configuration of its own. `background_toys` is another number
    of toys for ensembles without a signal, which are few, and decide closure and how large a Z can be told;
    `yield_toys` one for those of them whose true yield varies: `nu_norm` and `prior`. `tests` are those of
    the study that run here; None: all of them.
    """

    space: str | None = None
    treatment: Treatment = Treatment.PROFILED
    order: Literal[1, 2] = 1
    sizes: Sizes | None = None
    nu: Annotated[tuple[NuEntry, ...], Field(min_length=1)] | None = None
    signals: bool = True
    toys: ToyCount | None = None
    background_toys: ToyCount | None = None
    yield_toys: ToyCount | None = None
    tests: tuple[TestName, ...] | None = None

    @property
    def slug(self) -> str:
        """What files call it ('covariant-profiled'); no two configurations of a study have the same."""
        parts = [self.space or "", self.treatment.value, "quadratic" if self.order == 2 else ""]
        if self.sizes is not None:
            parts.append(f"{self.sizes.expected:g}".replace("+", ""))
        return "-".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """What people call it: 'covariant, profiled'."""
        profiled = self.treatment is Treatment.PROFILED
        parts = [self.space or "", "profiled" if profiled else _NO_NUISANCES]
        if self.order == 2:
            parts.append("quadratic")
        if self.sizes is not None:
            parts.append(f"{self.sizes.expected:g} events")
        return ", ".join(part for part in parts if part)


def tests_of_rule(rule: Rule) -> tuple[TestName, ...]:
    """Return the tests that a p by this rule is made of."""
    return ("network", "convex") if rule == "joint" else (rule,)


def find_slug(name: str, labels: Mapping[str, str]) -> str:
    """Return the slug of the configuration that a user names, among slugs with their labels.

    A name is a slug or a label, in which 'none' may stand for 'no nuisances' as in the study file.
    """
    for slug, label in labels.items():
        if name in (slug, label, label.replace(_NO_NUISANCES, Treatment.NONE.value)):
            return slug
    raise UnknownNameError(f"the study has no configuration '{name}' (it has: {'; '.join(labels.values())})")


class Study(Settings):
    """Everything that decides the results, and the keys of `FREE_KEYS`, which do not.

    Toys are drawn at every `nu`; at every `nu_norm`, true values of the nuisance of the normalisation in
    units of its sigma; with `prior`, at truths thrown from the prior of all nuisances; and, with
    `worst_direction`, at two sigma on both sides along the direction in which the checks expect t to move
    most. `result` is the test whose p-value is quoted (`rule`), in every configuration; `main` names the
    configuration that speaks for the study.
    """

    seed: Index
    source: AnySource
    sizes: Sizes = Sizes()
    normalisation: Annotated[Positive, Field(ge=SIGMAS[0], le=SIGMAS[1])] | None = 0.1
    tests: Tests
    configurations: Annotated[tuple[Configuration, ...], Field(min_length=1)] = (Configuration(),)
    nu: Annotated[tuple[NuEntry, ...], Field(min_length=1)] = ((0.0,),)  # 0 of every nuisance
    nu_norm: tuple[_Yields, ...] = (-3.0, -1.5, 1.5, 3.0)
    prior: bool = True
    worst_direction: bool = False
    result: Rule | None = None
    main: str | None = None
    signals: dict[str, Annotated[tuple[_Yield, ...], Field(min_length=1)]] = Field(default_factory=dict)
    toys: ToyCount = 400
    cluster: BatchCluster | None = None

    @model_validator(mode="before")
    @classmethod
    def _points_by_name(cls, content: Any) -> Any:
        """Write points that name their nuisances, {jet_energy_scale: 1}, and a bare 0 as lists of numbers."""
        if not isinstance(content, Mapping):
            return content
        names = nuisances_of(content.get("source"))
        found = dict(content)
        if "nu" in found:
            found["nu"] = numbered_points(found["nu"], names, "nu")
        if isinstance(configurations := found.get("configurations"), list | tuple):
            found["configurations"] = [
                {**entry, "nu": numbered_points(entry["nu"], names, f"configurations.{number}.nu")}
                if isinstance(entry, Mapping) and entry.get("nu") is not None
                else entry
                for number, entry in enumerate(configurations)
            ]
        return found

    @model_validator(mode="after")
    def _settled(self) -> Self:
        """Fill in what the source and the configurations leave open, and refuse two of one slug."""
        if "nu" not in self.model_fields_set and self.source.n_nuisances is not None:
            object.__setattr__(self, "nu", ((0.0,) * self.source.n_nuisances,))
        if isinstance(self.source, PoolSection) and "prior" not in self.model_fields_set:
            object.__setattr__(self, "prior", False)  # only covad's own pools have points of the prior
        named = self.source.spaces_named
        default = named[0] if len(named) == 1 else None
        settled = tuple(c.model_copy(update={"space": c.space or default}) for c in self.configurations)
        slugs = [configuration.slug for configuration in settled]
        for number, (configuration, slug) in enumerate(zip(settled, slugs, strict=True)):
            if configuration.space not in named:
                raise ValueError(
                    f"configurations.{number}.space: {' or '.join(named)} was expected, "
                    f"not {configuration.space}"
                )
            if (first := slugs.index(slug)) < number:
                raise ValueError(
                    f"configurations.{first} and configurations.{number} are both '{configuration.label}': "
                    "names must differ, by space, treatment, order or sizes.expected"
                )
        object.__setattr__(self, "configurations", settled)
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Refuse points, signals and sizes that do not fit the source, and a result without its tests."""
        self._check_points("nu", self.nu)
        if 0.0 in self.nu_norm or len(set(self.nu_norm)) < len(self.nu_norm):
            raise ValueError("nu_norm: an entry stands twice, or is 0, where toys are drawn anyway")
        drawn = sorted([0.0, *self.nu_norm])
        for low, high in pairwise(drawn):
            if high - low < _NEAREST_YIELDS:
                raise ValueError(
                    f"nu_norm: {low:g} and {high:g} are nearer than {_NEAREST_YIELDS:g} sigma, which says "
                    "nothing of how t moves with the yield"
                )
        self._check_tests()
        if self.main is not None:
            try:
                self.configuration(self.main)
            except UnknownNameError as failure:
                raise ValueError(f"main: {failure}") from failure
        for number, configuration in enumerate(self.configurations):
            if configuration.nu is not None:
                self._check_points(f"configurations.{number}.nu", configuration.nu)
        for signal, yields in self.signals.items():
            if len(set(yields)) < len(yields):
                raise ValueError(f"signals.{signal}: an entry stands twice")
            if isinstance(self.source, LatentSection) and signal != latent.SIGNAL:
                raise ValueError(f"signals.{signal}: the latent world has one signal, '{latent.SIGNAL}'")
        if self.worst_direction:
            self._check_direction()
        if isinstance(self.source, Collisions):
            self._check_events(self.source)
        return self

    def _check_tests(self) -> None:
        """Refuse tests of configurations that the study lacks, and a result without its tests."""
        needed = tests_of_rule(self.rule)
        for test in needed:
            if test not in self.tests.names:
                raise ValueError(f"result: {self.rule} needs the {test} test, which tests lacks")
        for number, configuration in enumerate(self.configurations):
            given, key = configuration.tests or (), f"configurations.{number}.tests"
            if configuration.tests == ():
                raise ValueError(f"{key}: one test is needed at least; leave the key out for all of them")
            if len(set(given)) < len(given):
                raise ValueError(f"{key}: an entry stands twice")
            for test in given:
                if test not in self.tests.names:
                    raise ValueError(
                        f"{key}: the study has no {test} test (it has: {', '.join(self.tests.names)})"
                    )
            if lacking := [test for test in needed if given and test not in given]:
                how = "result" if self.result is not None else "result, which the study leaves open,"
                raise ValueError(
                    f"{key}: {how} is {self.rule}, so that the {lacking[0]} test is needed in "
                    f"'{configuration.label}' too: add it, or name another result"
                )

    def _check_direction(self) -> None:
        """Refuse a worst direction where there is none to find."""
        if not isinstance(self.source, Collisions):
            raise ValueError(
                "worst_direction: only a response that the run fits (source.kind: events) has one: leave it "
                "out"
            )
        if len(self.source.nuisances) < 2:
            raise ValueError(
                "worst_direction: one systematic has no other direction than its own: give 2 and -2 in nu"
            )

    def _check_points(self, key: str, points: tuple[tuple[float, ...], ...]) -> None:
        """Refuse points that do not fit the nuisances of the source."""
        lengths = {len(nu) for nu in points}
        if len(lengths) > 1:
            raise ValueError(f"{key}: all points need the same number of nuisances")
        if self.source.n_nuisances not in (None, *lengths):
            raise ValueError(f"{key}: the source has {self.source.n_nuisances} nuisances, its points do not")
        if tuple(0.0 for _ in points[0]) not in points:
            raise ValueError(f"{key}: the central point 0 is needed, the null is drawn there")
        if len(set(points)) < len(points):
            raise ValueError(f"{key}: an entry stands twice")
        if isinstance(self.source, Collisions):
            for entry in (entry for entry in self.source.systematics if isinstance(entry, SamplesEntry)):
                place = self.source.nuisances.index(entry.name)
                for nu in points:
                    if nu[place] not in (-1.0, 0.0, 1.0):
                        raise ValueError(
                            f"{key}: '{entry.name}' has separate samples, which are there at -1, 0 and 1 "
                            f"only, not at {nu[place]:g}"
                        )

    def _check_events(self, source: Collisions) -> None:
        """Refuse too few events of a kind; the selection may leave fewer, which the run itself checks."""
        for signal, yields in self.signals.items():
            if signal not in source.signals:
                raise ValueError(f"signals.{signal}: source.signals has no such sample: add it there")
            simulated = source.signals[signal].simulate
            if simulated is not None and simulated < max(yields):
                raise ValueError(f"source.signals.{signal}.simulate: toys need {max(yields):g} events")
        for sizes in (self.sizes, *(c.sizes for c in self.configurations if c.sizes is not None)):
            expected = 0.0 if self.leaves_open(sizes) else sizes.expected
            for key, events in (("reference", sizes.reference), ("data", expected)):
                if getattr(source.splits, key) < events:
                    raise ValueError(f"source.splits.{key}: toys need {events:g} events")

    def leaves_open(self, sizes: Sizes) -> bool:
        """Return whether the expected events follow from the processes of the background (`expecting`)."""
        given = isinstance(self.source, Collisions) and self.source.background.processes
        return bool(given) and "expected" not in sizes.model_fields_set

    @property
    def rule(self) -> Rule:
        """Return whose p-value is quoted: what `result` names, else the convex or the adaptive test."""
        if self.result is not None:
            return self.result
        if self.tests.convex is not None:
            return "convex"
        return "adaptive" if self.tests.adaptive is not None else "network"

    def tests_of(self, configuration: Configuration) -> tuple[TestName, ...]:
        """Return the tests that run in a configuration."""
        chosen = configuration.tests
        return self.tests.names if chosen is None else tuple(test for test in TESTS if test in chosen)

    @property
    def spaces(self) -> tuple[tuple[str, int], ...]:
        """Return (space, order of the response) of every space that toys are drawn in."""
        return tuple(dict.fromkeys((c.space or "", c.order) for c in self.configurations))

    @property
    def points(self) -> tuple[tuple[float, ...], ...]:
        """Return all nu at which any toy is drawn."""
        own = (nu for c in self.configurations for nu in c.nu or ())
        return tuple(dict.fromkeys([*self.nu, *own]))

    def configuration(self, name: str) -> Configuration:
        """Return the configuration of this slug or label (`find_slug`)."""
        known = {configuration.slug: configuration for configuration in self.configurations}
        return known[find_slug(name, {slug: found.label for slug, found in known.items()})]

    def plain(self) -> dict[str, Any]:
        """Return the study as JSON data, defaults filled in."""
        return self.model_dump(mode="json")
