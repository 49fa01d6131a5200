"""The answer for an observed file: what `covad test` prints, a run keeps as JSON, and a notebook reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from covad.errors import FileFormatError, UnknownNameError
from covad.inference.impacts import Impact
from covad.inference.inputs import InputComparison
from covad.inference.nuisances import Compatibility, Correlations, NuisanceFit
from covad.inference.significance import MARK, MEANING, Significance
from covad.inference.signs import SignOffset
from covad.nplm.fit import Status
from covad.runs.directory import RunDirectory
from covad.storage.digests import content_digest
from covad.storage.json_files import parse_json
from covad.storage.records import Record, plain, restore
from covad.storage.sealed import SEAL, read_sealed, unsealed
from covad.study import Rule, tests_of_rule

#: Version of the JSON form. Answers of the one before have no constraints, correlations and impacts.
SCHEMA = 5
_READ = (4, SCHEMA)
#: How the joint p is made.
_JOINTLY = "the smaller p, by toys that both have"
#: Why p by toys must not be quoted where the signs of weights matter.
_OFF_BY_SIGNS = "do not quote this p: its toys have a noise of negative weights that observed data lack"
#: Keys of a test that are left out of the JSON form where they say nothing.
_OPTIONAL = ("signs", "member")
#: Key of the answer in the JSON form.
_RESULT = "result"


@dataclass(frozen=True)
class RankedEvent(Record):
    """An observed event by its number in the file, from 0."""

    event: int
    h: float
    observables: dict[str, float]


@dataclass(frozen=True)
class ObservableComparison(Record):
    """One observable of the top events, beside the background expected in their region and everywhere.

    Histograms are numbers of events; those of the background are expectations at the fitted nuisances.
    """

    name: str
    top_mean: float
    top_error: float
    region_mean: float | None  # None where the background sample has no event in the region
    everywhere_mean: float
    edges: tuple[float, ...] = field(repr=False)
    top: tuple[float, ...] = field(repr=False)
    region: tuple[float, ...] = field(repr=False)
    observed: tuple[float, ...] = field(repr=False)
    everywhere: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True)
class Excess(Record):
    """The observed events of largest h, and the background that is expected in their region."""

    h_threshold: float
    n_top: int
    expected: float  # background in the region h >= h_threshold, at the fitted nuisances
    expected_error: float  # of the finite background sample
    ranked: tuple[RankedEvent, ...] = field(repr=False)
    observables: tuple[ObservableComparison, ...]


@dataclass(frozen=True)
class ObservedTest(Record):
    """What one test of the study says about the observed events; a failed fit has a status only."""

    test: str
    status: Status
    t: float | None
    tau: float | None
    delta: float | None
    nu_with_h: tuple[float, ...]  # nuisances of the fit with h, in sigma, ordered as those without h
    quoted: str  # the null of the p to quote
    how: str  # that p is made, in words
    significances: tuple[Significance, ...]  # one per null; toys see t moved to the nominal yield
    excess: Excess | None
    signs: SignOffset | None = None  # of the toys that p is made by; None if they have none, or for the law
    constraints_with_h: tuple[
        float, ...
    ] = ()  # post-fit over pre-fit sigma of the fit with h; not of the network
    impacts: tuple[Impact, ...] = ()  # of each nuisance on Z by the law, the largest first
    member: str | None = None  # of the adaptive test: the one that saw most, whose h is shown

    @property
    def significance(self) -> Significance | None:
        """Return the one to quote, at the fitted nuisances: by the law of t, else by toys."""
        return next((found for found in self.significances if found.null == self.quoted), None)

    @property
    def largest_p(self) -> float | None:
        """Return the largest p over the toys at every nu: much larger than p, it says that nu matters."""
        toys = (found.p for found in self.significances if found.null.startswith("R_"))
        return max(toys, default=None)

    @property
    def p(self) -> float | None:
        return None if self.significance is None else self.significance.p

    @property
    def z(self) -> float | None:
        """Z of the same null as p; a bound where `significance.saturated`."""
        return None if self.significance is None else self.significance.z


@dataclass(frozen=True)
class Answer(Record):
    """The one statement on an observed file: p and Z by the rule that the study names beforehand.

    p is taken at the fitted nuisances. p and Z are None if a fit failed; `bound` says that they are bounds,
    because t lies beyond all toys, and `extrapolated` that no toys have tested the law of t so far out.
    `largest_p` is a check: the largest p over the toys at every nu.
    """

    rule: Rule
    how: str  # p is made, in words
    configuration: str  # its slug
    status: Status
    null: str | None
    p: float | None
    z: float | None
    bound: bool
    extrapolated: bool
    largest_p: float | None

    @classmethod
    def of(
        cls, rule: Rule, configuration: str, tests: Sequence[ObservedTest], joint: Significance | None
    ) -> Answer:
        """Return what the rule makes of the tests that it needs."""
        needed = [test for test in tests if test.test in tests_of_rule(rule)]
        status = Status.worst(*(test.status for test in needed))
        found = joint if rule == "joint" else needed[0].significance
        how = _JOINTLY if rule == "joint" else needed[0].how
        if any(test.signs is not None and not test.signs.tolerable for test in needed):
            how += f"; {_OFF_BY_SIGNS}"
        if found is None:
            return cls(rule, how, configuration, status, None, None, None, False, False, None)
        largest = max((test.largest_p for test in needed if test.largest_p is not None), default=None)
        return cls(
            rule,
            how,
            configuration,
            status,
            found.null,
            found.p,
            found.z,
            found.saturated,
            found.extrapolated,
            None if rule == "joint" else largest,
        )

    @property
    def line(self) -> str:
        """Return the last line of `covad test`: 'result: p = 0.43, Z = 0.18 (...)', or bounds, or none."""
        name = "both tests" if self.rule == "joint" else f"the {self.rule} test"
        if self.p is None or self.z is None:
            whose = "one of the tests" if self.rule == "joint" else name
            return f"result: none, because the fit of {whose} failed"
        above = self.bound and self.z > 0
        p = f"p {'<=' if above else '='} {self.p:.3g}"
        z = f"Z {'>=' if above else '<=' if self.bound else '='} {self.z:.2f}"
        mark = f", {MARK} {MEANING}" if self.extrapolated else ""
        check = "" if self.largest_p is None else f"; largest p over toys at every nu: {self.largest_p:.3g}"
        doubt = "" if self.status is Status.CONVERGED else f"; its fit ended as '{self.status}'"
        return f"result: {p}, {z} ({name}, {self.how}{mark}{check}{doubt})"


@dataclass(frozen=True)
class Observation(Record):
    """One observed file in one configuration of a run, by every test of the study, the default one first.

    `p` and `z` are those of the `answer`, which `rule` decides, and `t` that of the default test; the
    significances against every null are in `result("network").significances`.
    """

    name: str  # of the answer in the run, one per question
    rule: Rule  # whose p is quoted
    file: str
    sha256: str
    configuration: str  # its slug
    label: str  # of the configuration, for people
    nulls: str  # digest of the ensembles that its nulls are made of
    toys: int  # of all its nulls together, when it was made
    expected: float  # yield after the selection at nu = 0
    n_file: int
    n_selected: int
    n_reference: int
    inputs: InputComparison  # of data and simulation, before anything is fitted
    nuisances: tuple[NuisanceFit, ...]
    compatibility: Compatibility | None  # None where the test has no nuisances that data tell
    tests: tuple[ObservedTest, ...]
    joint: Significance | None  # of the smaller p of both tests; None where there is one, or a fit failed
    warnings: tuple[str, ...]
    correlations: Correlations | None = None  # of the nuisances without h; None where there are none

    @property
    def impacts(self) -> tuple[Impact, ...]:
        """Return the impacts of nuisances on Z of the first test that has some, the largest first."""
        return () if self.test_of_impacts is None else self.result(self.test_of_impacts).impacts

    @property
    def test_of_impacts(self) -> str | None:
        """Return the test that impacts are told of: the quoted one, if its law has them."""
        return next((test.test for test in self.tests if test.impacts), None)

    @property
    def ranked_nuisances(self) -> tuple[NuisanceFit, ...]:
        """Return the nuisances by their impact; without impacts, by how far they have moved."""
        order = {impact.name: number for number, impact in enumerate(self.impacts)}
        return tuple(
            sorted(self.nuisances, key=lambda fit: (order.get(fit.name, len(order)), -abs(fit.shift)))
        )

    def result(self, test: str) -> ObservedTest:
        """Return what one test says."""
        for found in self.tests:
            if found.test == test:
                return found
        known = ", ".join(found.test for found in self.tests)
        raise UnknownNameError(f"{self.file} was not tested by '{test}' (it was by: {known})")

    @property
    def t(self) -> float | None:
        return self.tests[0].t

    @property
    def p(self) -> float | None:
        return self.answer.p

    @property
    def z(self) -> float | None:
        return self.answer.z

    @property
    def answer(self) -> Answer:
        """Return the one statement to quote."""
        return Answer.of(self.rule, self.configuration, self.tests, self.joint)

    @property
    def off_by_signs(self) -> SignOffset | None:
        """Return the offset of toys for which p must not be quoted; None if there is none."""
        needed = [test.signs for test in self.tests if test.test in tests_of_rule(self.rule)]
        return next((signs for signs in needed if signs is not None and not signs.tolerable), None)

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(self.plain(), indent=2) + "\n"

    def plain(self) -> dict[str, Any]:
        """Return plain data for a JSON file; `result` is there for other programs.

        Tests have `signs` only where weights have some, and a `member` if they have several.
        """
        content = plain(self)
        content["tests"] = [
            {key: value for key, value in test.items() if key not in _OPTIONAL or value is not None}
            for test in content["tests"]
        ]
        return {"schema": SCHEMA, _RESULT: plain(self.answer), **content}

    @classmethod
    def from_json(cls, text: str, where: str = "the observation") -> Observation:
        """Read what `to_json` wrote, or a file of RUN/observed, whose seal is checked.

        Raise FileFormatError, which names `where`, if it is neither.
        """
        content = parse_json(text, where)
        if isinstance(content, dict) and SEAL in content:
            content = unsealed(content, where)
        return cls.from_plain(content, where)

    @classmethod
    def from_plain(cls, content: Any, where: str) -> Observation:
        """Check plain data as `from_json` does."""
        version = content.pop("schema", None) if isinstance(content, dict) else None
        if version not in _READ:
            raise FileFormatError(
                f"{where}: is no observation of schema {SCHEMA} (it has {version}); "
                "test the observed file again, or remove the answer"
            )
        result = content.pop(_RESULT, None)
        found = restore(cls, content, where)
        if result != plain(found.answer):
            raise FileFormatError(f"{where}: its '{_RESULT}' is not that of its tests")
        return found


def digest_of_nulls(identities: Iterable[str | None]) -> str:
    """Return what an answer holds for: these null ensembles, of all tests of a configuration.

    They depend on sizes, nu, normalisation, tests, models and pools, as the answer does.
    """
    return content_digest(sorted(identity or "" for identity in identities))


def read_observations(directory: RunDirectory) -> tuple[Observation, ...]:
    """Return the answers that a run keeps, in the order of their names."""
    paths = sorted(directory.observed.glob("*.json"))
    remedy = "test the observed file again, or remove the answer"
    return tuple(Observation.from_plain(read_sealed(path, remedy), str(path)) for path in paths)
