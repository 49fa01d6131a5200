"""One observed file through selection, space, response and the tests of a configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from covad.errors import CovadError, FileFormatError, UnknownNameError
from covad.events.source import reading
from covad.inference.impacts import ConvexNuisances, judge_member_with_h, judge_with_h
from covad.inference.joint import smaller_p
from covad.inference.nuisances import (
    LARGEST_AUXILIARY,
    SURPRISING,
    NuisanceFit,
    contradictions,
    correlate_nuisances,
    expected_number,
    judge_nuisances,
    yield_deviation,
)
from covad.inference.samples import small_reference
from covad.inference.significance import AnalyticNull, observed_z
from covad.inference.signs import SignNoise
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull
from covad.nplm.adaptive.members import AdaptiveFit
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNulls
from covad.nplm.dataset import Dataset
from covad.nplm.fit import Fit, Status
from covad.nplm.likelihood import GaussianPenalty, fit_nuisances, join_nuisances, log_yield
from covad.nplm.settings import FEWEST_EXPECTED, MOST_EXPECTED
from covad.nplm.statistic import likelihood_ratio
from covad.observed.copies import refuse_events_of_run
from covad.observed.dataset import (
    BackgroundEvents,
    BackgroundSample,
    ObservedEvents,
    embed_background,
    embed_observed,
    make_dataset,
    read_background,
    read_observed,
)
from covad.observed.excess import find_excess
from covad.observed.inputs import compare_observed
from covad.observed.result import Observation, ObservedTest
from covad.observed.run import FinishedRun
from covad.results.collect import Group, joint_null
from covad.runs.collisions import derived_seed, sample_of_file
from covad.runs.smoothing import read_smoothing, smoothing_doubt
from covad.storage.digests import content_digest, digest_once
from covad.study import tests_of_rule
from covad.study.plan import default_test, shape_names, space
from covad.toys.drawing import TOLERATED_OFFSET
from covad.toys.ensembles import Treatment

#: Characters of an observed file's name that name its answer: file systems have a limit.
_LONGEST_STEM = 100
#: Log of the yield over that of the toys for which nulls at one yield are good.
_TOLERATED_YIELD = 0.1
#: Toys per true yield from which on the null of the network holds within 3 sigma of the yield: with fewer,
#: more than 5 % of runs have twice the nominal rate there.
_WANTED_PER_YIELD = 100


def examine(
    run_path: Path,
    file: Path,
    *,
    expected: float | None = None,
    auxiliary: Mapping[str, float] | None = None,
    configuration: str | None = None,
) -> Observation:
    """Test the events of a file against a finished run, by every test of its study. Nothing is written.

    `expected` is the yield after the selection, at nu = 0; by default the study's. `auxiliary` are measured
    values of nuisances in units of their sigma; by default zero, the nominal calibration. `configuration` is
    the slug or the label of one of the study's; by default the main one.
    """
    run = FinishedRun.open(run_path, configuration)
    expected, measured = _expectations(run, expected, auxiliary)
    sha256 = digest_of_file(file)
    events = read_observed(file, run.space.layout, run.data.selection)
    if digest_of_file(file) != sha256:
        raise FileFormatError(f"{file}: has changed while it was read; test it when it is whole")
    if sample := sample_of_file(run.data.directory, sha256):
        raise FileFormatError(
            f"{file}: is an event file of the run itself, of its sample '{sample}': test another one"
        )
    refuse_events_of_run(file, events, run.data)
    simulated = BackgroundSample.of(run.data, read_background(run.data, run.data.rows["reference"]))
    inputs = compare_observed(events, simulated, run.data)
    # the same reference for the same file
    rng = np.random.default_rng(derived_seed(run.study, "observed", sha256))
    reference = run.reference.pick(run.sizes.reference, rng)
    dataset = make_dataset(run, embed_observed(run, file, events), reference, expected, measured)
    delta = fit_nuisances(dataset)
    noise = SignNoise.of(run.reference)
    in_nuisances = None if noise is None else noise.in_nuisances(dataset, join_nuisances(delta, dataset))
    nuisances, compatibility = judge_nuisances(dataset, delta, run.nuisances, in_nuisances)
    background = embed_background(run, simulated)
    default = default_test(run.study)
    groups = sorted(run.groups, key=lambda group: group.test != default)  # it speaks first
    seed = int(sha256[:8], 16)
    tests = tuple(
        _test(group, dataset, delta, run.nuisances, noise, events, background, seed) for group in groups
    )
    joint = None
    both = [
        (test.p, group)
        for test, group in zip(tests, groups, strict=True)
        if test.p is not None and test.test in tests_of_rule("joint")
    ]
    if len(both) == 2:
        (first, one), (second, other) = both
        joint = observed_z(float(smaller_p(first, second)), joint_null(one, other))
    return Observation(
        name=_answer_name(run, file, sha256, expected, measured),
        rule=run.study.rule,
        file=plain_text(file.name),
        sha256=sha256,
        configuration=run.configuration.slug,
        label=run.configuration.label,
        nulls=run.nulls,
        toys=run.toys,
        expected=expected,
        n_file=events.n_file,
        n_selected=len(events),
        n_reference=len(reference),
        inputs=inputs,
        nuisances=nuisances,
        compatibility=compatibility,
        tests=tests,
        joint=joint,
        warnings=(*inputs.warnings, *_warnings(run, dataset, delta, nuisances, tests)),
        correlations=correlate_nuisances(dataset, delta, run.nuisances),
    )


def _expectations(
    run: FinishedRun, expected: float | None, auxiliary: Mapping[str, float] | None
) -> tuple[float, dict[str, float]]:
    """Return the expected yield and the auxiliary value of every nuisance; raise if one is impossible."""
    if expected is not None and not FEWEST_EXPECTED <= _number(expected) <= MOST_EXPECTED:
        raise CovadError(
            f"the expected yield must be a number of events from {FEWEST_EXPECTED:g} to {MOST_EXPECTED:g}, "
            f"not {expected}"
        )
    if not isinstance(auxiliary, Mapping | None):
        raise CovadError(f"auxiliary values are given by the names of their nuisances, not as {auxiliary!r}")
    measured = dict.fromkeys(run.nuisances, 0.0)
    for name, value in (auxiliary or {}).items():
        if name not in measured:
            known = ", ".join(run.nuisances) or "none"
            raise UnknownNameError(
                f"the test '{run.configuration.label}' has no nuisance '{name}' (its nuisances: {known})"
            )
        if not abs(_number(value)) <= LARGEST_AUXILIARY:
            raise CovadError(
                f"the auxiliary value of '{name}' must be a number of sigma from {-LARGEST_AUXILIARY:g} to "
                f"{LARGEST_AUXILIARY:g}, not {value}: the response describes small shifts only"
            )
        if value and name in run.pruned:
            raise CovadError(
                f"the auxiliary value of '{name}' cannot be used: the tests of this run leave the nuisance "
                "out (source.response.prune), so leave the value out, or run the study without prune"
            )
        measured[name] = float(value)
    return run.sizes.expected if expected is None else float(expected), measured


def _number(value: object) -> float:
    """Return NaN for what is no number, so that it is refused as such."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return math.nan
    return float(value)


def plain_text(name: str) -> str:
    """Return the name of a file as text that can be written anywhere: some are not UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def digest_of_file(file: Path) -> str:
    """Return the digest of an observed file; what cannot be read is one sentence."""
    with reading(Path(plain_text(str(file)))):
        if file.exists() and not file.is_file():
            kind = "a directory" if file.is_dir() else "not a regular file"
            raise FileFormatError(f"{plain_text(str(file))}: is {kind}: name a file of events")
        return digest_once(file)


def _test(
    group: Group,
    dataset: Dataset,
    delta: Fit,
    names: tuple[str, ...],
    noise: SignNoise | None,
    events: ObservedEvents,
    background: BackgroundEvents,
    seed: int,
) -> ObservedTest:
    """Run one test on the dataset, and hold its t against every null of the run.

    The law of t is taken at the fitted nuisances, exactly; toys see t moved to the yield that they have.
    """
    test = group.ensemble.test.build(group.ensemble.source)
    outcome = likelihood_ratio(dataset, test, seed, delta)
    if outcome.status is Status.FAILED:
        return ObservedTest(group.test, outcome.status, None, None, None, (), group.quoted, "", (), None)
    t, how, member = float(outcome.t), "toys at the nominal yield", None
    if isinstance(test, AdaptiveTest) and isinstance(outcome.tau, AdaptiveFit):
        member = test.members.names[outcome.tau.member]
    if group.moments is not None:
        how = "toys at the fitted yield"
        t = float(group.moments.at_nominal(t, fitted_yield(group, dataset, delta)))
    nulls = {name: (t, null) for name, null in group.nulls.items()}
    with_h = ConvexNuisances((), ())
    of_law = float(outcome.t)
    if isinstance(test, ConvexTest | AdaptiveTest):
        if group.signs is not None and not group.signs.tolerable:  # toys have another t
            nulls = {}
        nu = join_nuisances(delta, dataset)
        further = None if noise is None else noise.in_test(test, dataset, nu)
        laws = test.nulls(dataset, nu, further=further)
        law = laws.at_yield()
        if isinstance(test, ConvexTest) and isinstance(laws, ConvexNulls):
            with_h = judge_with_h(test, dataset, outcome, names, laws)
        if isinstance(test, AdaptiveTest) and isinstance(law, AdaptiveNull):
            with_h = judge_member_with_h(test, dataset, outcome, names, law)
        n_toys, how = len(group.null_t), "law of t at the fitted nuisances"
        if group.configuration.treatment is Treatment.NONE:
            how = "law of t without nuisances"
        if member is not None:
            how += f"; most was seen by its member of {member}"
        of_law = law.t_of(outcome.tau, delta)
        nulls["analytic"] = of_law, AnalyticNull.of(law.law, n_toys)
    per_sigma = np.sqrt(GaussianPenalty.of_nuisances(dataset).precision)
    return ObservedTest(
        test=group.test,
        status=outcome.status,
        t=of_law,
        tau=float(outcome.tau.value),
        delta=float(delta.value),
        nu_with_h=tuple(float(x) for x in join_nuisances(outcome.tau, dataset) * per_sigma),
        quoted=group.quoted,
        how=how,
        significances=tuple(observed_z(t, null) for t, null in nulls.values()),
        excess=find_excess(events, background, dataset, test, outcome),
        signs=None if group.quoted == "analytic" else group.signs,
        constraints_with_h=with_h.constraints,
        impacts=with_h.impacts,
        member=member,
    )


def fitted_yield(group: Group, dataset: Dataset, delta: Fit) -> float:
    """Return the log of the fitted yield of the background over that of the toys of R_0."""
    return log_yield(dataset, delta) + math.log(dataset.weights.sum() / group.ensemble.draw.expected)


def _answer_name(
    run: FinishedRun, file: Path, sha256: str, expected: float, auxiliary: Mapping[str, float]
) -> str:
    """Return one name per question, so that no answer replaces that to another; defaults go unsaid."""
    name = f"{plain_text(file.stem)[:_LONGEST_STEM]}-{sha256[:8]}-{run.configuration.slug}"
    if expected == run.sizes.expected and not any(auxiliary.values()):
        return name
    return f"{name}-{content_digest([expected, dict(auxiliary)])[:8]}"


def _warnings(
    run: FinishedRun,
    dataset: Dataset,
    delta: Fit,
    nuisances: tuple[NuisanceFit, ...],
    tests: tuple[ObservedTest, ...],
) -> Iterator[str]:
    exact, deviation = run.configuration.treatment is Treatment.NONE, yield_deviation(dataset)
    if abs(deviation) > SURPRISING:
        of_what = "of a Poisson number; this test takes the yield as exact, and t sees the difference"
        if not exact:
            of_what = "with the uncertainties of the nuisances"
        where = " at the auxiliary values" if any(found.auxiliary for found in nuisances) else ""
        yield (
            f"{len(dataset.data)} events are observed where {expected_number(dataset):g} are expected"
            f"{where}: {deviation:+.1f} standard deviations {of_what}; is --expected right?"
        )
    yield from contradictions(nuisances)
    worth = run.reference.effective_share * len(dataset.reference)
    if cost := small_reference(worth, len(dataset.data)):
        yield cost
    for group in run.groups:
        fitted = fitted_yield(group, dataset, delta)
        moments = group.moments
        if not (abs(fitted) < _TOLERATED_YIELD if moments is None else moments.covers(fitted)):
            approximate = "their p are approximate"
            if group.quoted == "analytic":  # by the law at the fit, whatever its yield
                approximate = "the p of toys are approximate, the quoted one is not concerned"
            which = f"{math.exp(fitted):.2f} times the yield of the toys of the {group.test} test"
            if exact:
                yield f"{which} is expected, and this test fits no yield: {approximate}"
            else:
                yield f"the fit has {which}, farther from it than its nulls were drawn: {approximate}"
        fewest = min(len(toys.done) for toys in group.at_yields.values())
        if group.analytic is None and group.yields and fewest < _WANTED_PER_YIELD:
            yield (
                f"the null of the {group.test} test has {fewest} toys per yield: its p may be off at yields "
                f"far from the nominal one, {_WANTED_PER_YIELD} and more are needed"
            )
        if (signs := group.signs) is not None and signs.size > TOLERATED_OFFSET:
            what = "p against toys is too large by as much: simulate more events"
            if group.quoted == "analytic":
                left_out = "" if signs.tolerable else ", so that they are left out"
                what = f"the quoted p is not concerned, that against toys is too large{left_out}"
            yield (
                f"negative weights of the simulation make t of toys of the {group.test} test larger than "
                f"that of observed data by {signs.text}: {what}"
            )
    if run.study.rule in ("network", "joint"):
        smoothed = read_smoothing(run.data.products.pools(space(run.configuration)))
        drawn = [pool for pool in smoothed if pool.pool in ("reference", "data")]
        doubt = smoothing_doubt(drawn, shape_names(run.study))
        if doubt is not None:
            yield doubt
    for test in tests:
        if test.status is not Status.CONVERGED:
            yield f"the fit of the {test.test} test ended as '{test.status}'"
    for group in run.groups:
        failed = sum(toys.failed for toys in (group.null, *group.yields.values(), *group.shifted.values()))
        if failed:
            yield f"{failed} toys of the nulls of the {group.test} test failed and are left out"
