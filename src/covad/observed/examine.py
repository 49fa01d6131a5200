"""One observed file through selection, encoder, response and the tests of a configuration."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from covad.errors import CovadError, FileFormatError, UnknownNameError
from covad.inference.nuisances import judge_nuisances
from covad.inference.significance import observed_z
from covad.nplm.dataset import Dataset
from covad.nplm.fit import Status
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.statistic import likelihood_ratio
from covad.observed.background import BackgroundEvents, background_events
from covad.observed.dataset import ObservedEvents, embedded, make_dataset, read_observed
from covad.observed.excess import find_excess
from covad.observed.result import Observation, ObservedSignificance, TestResult
from covad.observed.run import FinishedRun
from covad.results.collect import Group
from covad.results.extrapolated import is_extrapolated
from covad.runs.collisions import derived_seed
from covad.storage.atomic import write_json
from covad.storage.digests import file_digest
from covad.toys.ensembles import canonical

#: Standard deviations of the number of events beyond which it deserves a word.
SURPRISING = 3.0
#: Relative difference of the expected yield from that of the toys which their nulls are good for.
_TOLERATED_YIELD = 0.1


@dataclass(frozen=True)
class Question:
    """What is asked about a file: the yield that is expected after the selection, at nu = 0, and the measured
    values of the nuisances in units of their sigma; by default the study's yield, and zero."""

    configuration: str | None = None
    expected: float | None = None
    auxiliary: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.expected is not None and not 0 < self.expected < math.inf:
            raise CovadError(f"the expected yield must be a positive number, not {self.expected}")


def parse_auxiliary(texts: Sequence[str]) -> dict[str, float]:
    """NAME=VALUE pairs of the command line."""
    values: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (name and equals and math.isfinite(value)):
            raise CovadError(f"an auxiliary value is written NAME=VALUE, with a number, not '{text}'")
        if name in values:
            raise CovadError(f"the auxiliary value of '{name}' is given twice")
        values[name] = value
    return values


def examine(run_path: Path, file: Path, question: Question | None = None) -> Observation:
    """Test the events of a file against a finished run, and keep the answer in RUN/observed."""
    question = question or Question()
    run = FinishedRun.open(run_path, question.configuration)
    auxiliary = _all_values(run, question.auxiliary)
    groups = run.groups
    events = read_observed(file, run.models[0], run.data.selection)
    sha256 = file_digest(file)
    _refuse_own_sample(run, file, sha256)
    expected = question.expected or run.sizes.expected
    picked = run.reference.pick(run.sizes.reference, _generator(run, sha256))
    dataset = make_dataset(run, embedded(run, events.particles), picked, expected, auxiliary)
    nuisances, compatibility = judge_nuisances(dataset, fit_nuisances(dataset), run.nuisances)
    background = background_events(run)
    tests = tuple(_tested(group, dataset, events, background, sha256) for group in groups)
    observation = Observation(
        name=_answer_name(run, file, sha256, expected, auxiliary),
        file=file.name,
        sha256=sha256,
        configuration=run.configuration.name,
        expected=expected,
        n_file=events.n_file,
        n_selected=len(events),
        n_reference=len(picked),
        nuisances=nuisances,
        compatibility=compatibility,
        tests=tests,
        warnings=tuple(_warnings(run, len(events), expected, tests)),
    )
    write_json(run.directory.path / "observed" / f"{observation.name}.json", observation.plain())
    return observation


def _all_values(run: FinishedRun, given: Mapping[str, float]) -> dict[str, float]:
    """The auxiliary value of every nuisance; the nominal calibration is zero."""
    for name in given:
        if name not in run.nuisances:
            known = ", ".join(run.nuisances) or "none"
            raise UnknownNameError(
                f"the test '{run.configuration.name}' has no nuisance '{name}' (its nuisances: {known})"
            )
    return {name: given.get(name, 0.0) for name in run.nuisances}


def _answer_name(
    run: FinishedRun, file: Path, sha256: str, expected: float, auxiliary: Mapping[str, float]
) -> str:
    """One per question, so that no answer replaces that to another; the usual question goes unsaid."""
    name = f"{file.stem}-{sha256[:8]}-{re.sub(r'[^A-Za-z0-9.]+', '-', run.configuration.name)}"
    if expected == run.sizes.expected and not any(auxiliary.values()):
        return name
    return f"{name}-{hashlib.sha256(canonical([expected, dict(auxiliary)])).hexdigest()[:8]}"


def _refuse_own_sample(run: FinishedRun, file: Path, sha256: str) -> None:
    """Events that the run was made from cannot be its observed ones."""
    for sample, notes in (run.directory.read("events.json") or {}).items():
        if any(note["sha256"] == sha256 for note in notes):
            raise FileFormatError(f"{file}: is an event file of the run itself, of its sample '{sample}'")


def _generator(run: FinishedRun, sha256: str) -> np.random.Generator:
    """The same reference for the same file."""
    return np.random.default_rng(derived_seed(run.study, "observed", sha256))


def _tested(
    group: Group, dataset: Dataset, events: ObservedEvents, background: BackgroundEvents, sha256: str
) -> TestResult:
    test = group.ensemble.test.build(group.ensemble.source)
    outcome = likelihood_ratio(dataset, test, int(sha256[:8], 16))
    if outcome.status is Status.FAILED:
        return TestResult(group.test, outcome.status, None, None, None, (), (), None)
    return TestResult(
        test=group.test,
        status=outcome.status,
        t=float(outcome.t),
        tau=float(outcome.tau.value),
        delta=float(outcome.delta.value),
        nu_tau=tuple(float(x) for x in outcome.tau.nu),
        significances=tuple(_significances(outcome.t, group)),
        excess=find_excess(events, background, dataset, test, outcome),
    )


def _significances(t: float, group: Group) -> Iterator[ObservedSignificance]:
    """Against every null of the run."""
    for null in group.nulls.values():
        found = observed_z(t, null)
        extrapolated = is_extrapolated(found.z, null.name, len(group.null.t))
        yield ObservedSignificance(**vars(found), extrapolated=extrapolated)


def _warnings(
    run: FinishedRun, n_observed: int, expected: float, tests: tuple[TestResult, ...]
) -> Iterator[str]:
    deviation = yield_deviation(n_observed, expected, run.study.normalisation)
    if abs(deviation) > SURPRISING:
        yield (
            f"{n_observed} events are observed where {expected:g} are expected: {deviation:+.1f} standard "
            "deviations, the uncertainty of the normalisation included; is --expected right?"
        )
    drawn = run.sizes.expected
    if abs(expected / drawn - 1.0) > _TOLERATED_YIELD:
        yield f"the nulls were made for {drawn:g} expected events, not {expected:g}: their p are approximate"
    for test in tests:
        if test.status != Status.CONVERGED:
            yield f"the fit of the {test.test} test ended as '{test.status}'"
    for group in run.groups:
        failed = sum(toys.failed for toys in (group.null, *group.shifted.values()))
        if failed:
            yield f"{failed} toys of the nulls of the {group.test} test failed and are left out"


def yield_deviation(n_observed: int, expected: float, normalisation: float | None) -> float:
    """In standard deviations: Poisson, and the normalisation where it is uncertain."""
    return float((n_observed - expected) / np.hypot(np.sqrt(expected), (normalisation or 0.0) * expected))
