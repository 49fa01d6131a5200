"""A made-up finished run for tests of the report: its typed summary, and its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from covad.embedding.metrics import Metrics, ProbeResult
from covad.inference.clip import ClipPoint
from covad.inference.closure import closure_tests, corrected, false_positives
from covad.inference.coverage import prior_dependence
from covad.inference.goodness import chi2_law, one_sample
from covad.inference.intervals import Interval
from covad.inference.nuisances import NuisanceToys
from covad.inference.power import power_curve
from covad.inference.ranking import NuisanceMisfit, PriorClosure, Shift
from covad.inference.reach import Reach
from covad.inference.significance import AnalyticNull, Chi2Null, EmpiricalNull, median_z
from covad.inference.verdict import judge
from covad.observed.result import Observation
from covad.report.evidence import Evidence
from covad.report.tables.table import Cell, Column, Row, Table
from covad.results.frontier import make_frontier
from covad.results.manifest import Manifest, ToyVersions
from covad.results.spaces import FoldSummary, SpaceSummary, TrainingSummary
from covad.results.summary import (
    SUMMARY_SCHEMA,
    ClipSummary,
    ClosureSummary,
    ConfigurationSummary,
    EnsembleSummary,
    NuisanceSummary,
    NullLaw,
    NullSummary,
    PriorSummary,
    ProcessShare,
    SignalPower,
    SignalSignificance,
    Summary,
    ToyCounts,
)
from covad.runs.checks import Departure, ReachAt, SpaceChecks, SpaceReach, ValidationCounts, YieldAt
from covad.storage.versions import Versions
from covad.study import Study, parse_study
from covad.toys.ensembles import Treatment
from covad.toys.truths import point_name

POINTS = ((0.0,), (1.0,), (-1.0,))
INJECTIONS = (("hpm", 50.0), ("hpm", 100.0), ("lq", 50.0))
CONFIGURATIONS = (
    ("contrastive", "none", 1),
    ("contrastive", "profiled", 1),
    ("covariant", "profiled", 1),
    ("covariant", "profiled", 2),
)
TOYS = 60
DOF = 45
_NUISANCES = (
    NuisanceToys("jet_energy_scale", TOYS, 0.02, 0.4, 0.05, 0.7),
    NuisanceToys("normalisation", TOYS, -0.3, 0.2, -0.1, 0.9),
)
_PROBE = ProbeResult(0.931, 0.001, 0.85, 0.59)


def write_nothing(self: Any, file: Any, **options: Any) -> None:
    """In place of `Canvas.savefig`: drawing is tested elsewhere, and takes most of the time."""
    if options["format"] == "svg":
        file.write("<svg></svg>")


def slug(embedding: str, treatment: str, order: int) -> str:
    return f"{embedding}-{treatment}" + ("-quadratic" if order == 2 else "")


def changed(found: Evidence, section: str, change: Callable[[Any], dict[str, Any]]) -> Evidence:
    """The same evidence with other values in every line of a section of the summary."""
    lines = tuple(replace(line, **change(line)) for line in getattr(found.summary, section))
    return replace(found, summary=replace(found.summary, **{section: lines}))


def evidence(
    configurations: tuple[tuple[str, str, int], ...] = CONFIGURATIONS,
    tests: tuple[str, ...] = ("network",),
    injections: tuple[tuple[str, float], ...] = INJECTIONS,
    points: tuple[tuple[float, ...], ...] = POINTS,
    checked: bool = True,
    observed: tuple[Observation, ...] = (),
) -> Evidence:
    """t is chi2 distributed, shifted a little by nu where unlinearised, and more by signals."""
    rng = np.random.default_rng(7)
    alpha = {c[0]: 0.0 if c[0] == "contrastive" else 30.0 for c in configurations if c[0] != "latent"}
    lines: dict[str, list[Any]] = {
        key: []
        for key in ("clips", "ensembles", "nulls", "closure", "prior", "nuisances", "significance", "power")
    }
    t: dict[str, Any] = {}
    for configuration in configurations:
        for test in tests:
            _add_toys(lines, t, rng, configuration, test, injections, points)
    checks, spaces = {}, []
    for embedding, order in dict.fromkeys((c[0], c[2]) for c in configurations) if checked else ():
        space = f"{embedding}_{'linear' if order == 1 else 'quadratic'}"
        checks[space] = _checks(rng)
        spaces.append(_space(space, embedding, order, checks[space]))
    counted = ("requested", "done", "failed", "missing")
    proposal = ("covariant", "profiled", 1)
    study = _study(alpha, configurations, injections, tests)
    summary = Summary(
        schema=SUMMARY_SCHEMA,
        covad="0.0",
        made_of="",
        study=study,
        processes=(ProcessShare("w", 900, 9_000.0), ProcessShare("ttbar", 100, 1_000.0)),
        yields=None,
        manifest=Manifest({"numpy": "2"}, {"cores": 2}, 1, {}, {"spaces": 60.0, "toys": 12.0}, {}),
        toy_versions=(ToyVersions(Versions("0.0", "2.0", "1.13", "0.60", "2.4"), 60),),
        main_configuration=slug(*(proposal if proposal in configurations else configurations[0])),
        configurations=tuple(_configuration(*c) for c in configurations),
        trainings=tuple(
            TrainingSummary(key, a, 0, tuple(Metrics(s, 5 - s, 0.5 - s / 100, 5.0) for s in (1, 2, 3)))
            for key, a in alpha.items()
        ),
        spaces=tuple(spaces),
        frontier=make_frontier(study, {(space.space, space.order): space.reach for space in spaces}),
        **{key: tuple(found) for key, found in lines.items()},
        toys=ToyCounts(*(sum(getattr(e, key) for e in lines["ensembles"]) for key in counted)),
    )
    return Evidence(summary, t, checks, observed=observed)


def _study(alpha: dict[str, float], configurations: Any, injections: Any, tests: Any) -> Study:
    signals = {signal: [n for s, n in injections if s == signal] for signal, _ in injections}
    source: dict[str, Any] = {"kind": "latent"}
    if alpha:
        source = {
            "kind": "events",
            "folder": "somewhere",
            "background": {"simulate": 6_000_000},
            "signals": {signal: {"simulate": 1000} for signal in signals},
            "spaces": {key: {"alpha": a} for key, a in alpha.items()},
        }
    listed = [dict(zip(("space", "treatment", "order"), c, strict=True)) for c in configurations]
    content = {"seed": 1, "source": source, "tests": {test: {} for test in tests}, "configurations": listed}
    return parse_study(content | ({"signals": signals} if alpha else {}), "here")


def _configuration(embedding: str, treatment: str, order: int) -> ConfigurationSummary:
    return ConfigurationSummary(
        configuration=slug(embedding, treatment, order),
        label=slug(embedding, treatment, order).replace("none", "no nuisances").replace("-", ", "),
        space=embedding,
        treatment=Treatment(treatment),
        order=order,
        expected=10_000.0,
        reference=52_000,
        kind=None if embedding == "latent" else embedding,  # type: ignore[arg-type]
        own_sizes=False,
    )


def _space(space: str, embedding: str, order: int, checks: SpaceChecks) -> SpaceSummary:
    return SpaceSummary(
        name=space,
        space=embedding,
        order=order,
        yields=checks.yields,
        reach=checks.reach,
        probe=checks.probe,
        linearity=checks.linearity,
        validation=tuple(comparison.summary for comparison in checks.comparisons),
        folds=tuple(FoldSummary(fold, checks.probe, checks.reach) for fold in range(2)),
        smoothing=(),
    )


def _checks(rng: np.random.Generator) -> SpaceChecks:
    known, unknown = (12_000.0, Interval(9_000.0, 15_000.0)), (None, Interval(8_000.0, None))
    averaged, near = (7_000.0, Interval(6_000.0, 8_500.0)), (3_000.0, Interval(2_500.0, 3_600.0))
    return SpaceChecks(
        comparisons=tuple(comparison((nu,), rng) for nu in (-2.0, -1.0, 1.0, 2.0)),
        yields=tuple(
            YieldAt((nu,), 1 + 0.011 * nu, 1 + 0.01 * nu, 0.0005, 10_000.0, nu / 10, 0.0, 0.3)
            for nu in (-2.0, 2.0)
        ),
        reach=SpaceReach(
            Reach(*averaged, 0.25, 500),
            tuple(
                ReachAt(*reach, 0.25, 500, (nu,))
                for nu, reach in ((1.0, known), (-1.0, unknown), (2.0, near), (-2.0, known))
            ),
        ),
        probe=_PROBE,
        linearity=tuple(
            Departure("cells", (1.0,), size, 0.03 * size, 0.05, 0.0, 0.09) for size in (1.0, 2.0)
        ),
    )


def with_nuisances(found: Evidence, effects: Mapping[str, float], left_out: Sequence[float] = ()) -> Evidence:
    """The same evidence with these nuisances in study and checks; `left_out` are shifts of t without each.

    The last one has separate samples: it ends at one sigma.
    """
    content = found.summary.study.plain()
    content.pop("nu", None)
    content["source"]["systematics"] = [
        {"name": name, "kind": "normalisation", "uncertainty": 0.1} for name in effects
    ]
    rng, axes = np.random.default_rng(3), np.eye(len(effects))
    comparisons = [
        comparison(tuple((size * axis).tolist()), rng, effect)
        for number, (axis, effect) in enumerate(zip(axes, effects.values(), strict=True))
        for size in ((-2.0, -1.0, 1.0, 2.0) if number < len(effects) - 1 else (-1.0, 1.0))
    ]
    none = Shift(0.0, 0.0, 0.0)
    listed = [NuisanceMisfit(k, none, Shift(x, x, x), 1.0, False) for k, x in enumerate(left_out)]
    prior = PriorClosure(1e4, none, tuple(listed), (), (0.0,) * len(effects), 0.0) if left_out else None
    checks = {
        space: replace(c, comparisons=tuple(comparisons), prior=prior) for space, c in found.checks.items()
    }
    return replace(found, checks=checks, summary=replace(found.summary, study=parse_study(content, "here")))


def comparison(nu: tuple[float, ...], rng: np.random.Generator, effect: float = 0.02) -> ValidationCounts:
    nominal = np.full(6, 100.0)
    predicted = nominal * (1 + effect * sum(nu) * np.linspace(-1, 1, 6))
    return ValidationCounts(
        where="z0",
        nu=nu,
        chi2=5.0,
        dof=5,
        p=0.4,
        residual_share=0.1,
        edges=(-1.0, -0.5, 0.0, 0.5, 1.0),
        nominal=tuple(nominal.tolist()),
        observed=tuple((predicted + rng.normal(0, 1, 6)).tolist()),
        predicted=tuple(predicted.tolist()),
        uncertainty=(1.0,) * 6,
    )


def _add_toys(
    lines: dict[str, list[Any]],
    t: dict[str, Any],
    rng: np.random.Generator,
    configuration: tuple[str, str, int],
    test: str,
    injections: Any,
    points: Any,
) -> None:
    key = {"test": test, "configuration": slug(*configuration)}
    shift = 15.0 if configuration[0] == "contrastive" else 0.0
    background = {nu: _toys(rng, shift * abs(nu[0])) for nu in points}
    for nu, toys in background.items():
        _ensemble(lines, t, key, configuration, nu, None, 0.0, toys)
    null = background[0.0,]
    law = Chi2Null(DOF, TOYS) if test == "network" else AnalyticNull(chi2_law(DOF).sf, "analytic", TOYS)
    lines["nulls"].append(_null(key, null, law))
    if test == "network":
        scan = tuple(ClipPoint(w, 40, 0, 20 * w, 1.0, 9.0, ()) for w in (1.0, 2.0, 3.0))
        lines["clips"].append(ClipSummary(key["configuration"], 1.94, 0.05, scan))
    if len(points) > 1:
        lines["closure"] += _closure(key, background, law)
    if configuration[1] == "profiled":
        lines["prior"].append(_prior(key, shift))
        lines["nuisances"].append(NuisanceSummary(**key, prior=False, nuisances=_NUISANCES))
    shifted = [EmpiricalNull(toys, point_name(nu, ("nu_1",))) for nu, toys in background.items() if nu[0]]
    for nu in points if configuration[1] == "profiled" else points[:1]:
        for signal, injected in injections:
            toys = _toys(rng, 0.4 * injected)
            _ensemble(lines, t, key, configuration, nu, signal, injected, toys)
            what = {**key, "nu": nu, "signal": signal, "injected": injected, "n_toys": TOYS}
            for found in (EmpiricalNull(null), law, *shifted):
                lines["significance"].append(SignalSignificance(**vars(median_z(toys, found)), **what))
                lines["power"].append(_power(what, toys, found))


def _toys(rng: np.random.Generator, shift: float) -> Any:
    return rng.chisquare(DOF, TOYS) + shift


def _ensemble(
    lines: Any, t: Any, key: Any, configuration: Any, nu: Any, signal: Any, injected: Any, toys: Any
) -> None:
    identity = f"{key['test']}-{key['configuration']}-{nu}-{signal}-{injected}"
    t[identity] = toys
    embedding, treatment, order = configuration
    lines["ensembles"].append(
        EnsembleSummary(
            requested=TOYS + 3,
            done=TOYS,
            failed=1,
            missing=2,
            **key,
            space=embedding,
            treatment=Treatment(treatment),
            order=order,
            expected=10_000.0,
            reference=52_000,
            nu=nu,
            nu_norm=0.0,
            along_worst=0.0,
            prior=False,
            signal=signal,
            injected=injected,
            identity=identity,
            unconverged=0,
            mean=45.0,
            std=9.5,
            median=44.0,
            seconds_per_toy=0.5,
        )
    )


def _null(key: Any, null: Any, law: Any) -> NullSummary:
    against = one_sample(null, chi2_law(DOF), 1, (10, 25))
    weights = () if law.name == "chi2" else (1.0,) * DOF
    rates = false_positives(null, law, "R_0")
    found = NullLaw(law.name, 45.0, 9.5, 45.0, weights, against, rates)
    return NullSummary(**key, capacity=float(DOF), n_toys=TOYS, mean=45.0, std=9.5, law=found)


def _closure(key: Any, background: Any, law: Any) -> list[ClosureSummary]:
    null = background[0.0,]
    shifted = {point_name(nu, ("nu_1",)): toys for nu, toys in background.items() if any(nu)}
    table = closure_tests(shifted, null, 1, (10, 25))
    network = key["test"] == "network"
    alone = {point: one_sample(toys, chi2_law(DOF), 1, (10, 25)) for point, toys in shifted.items()}
    points = shifted if network else {"R_0": null, **shifted}
    closure = judge(points, EmpiricalNull(null) if network else law)
    return [
        ClosureSummary(
            **key,
            point=point,
            n_toys=len(points[point]),
            verdict=closure.verdict,
            reason=closure.reason,
            against_null=table.get(point, ()),
            against_chi2=corrected(alone)[point] if network else (),
            **vars(found),
        )
        for point, found in closure.points.items()
    ]


def _prior(key: Any, shift: float) -> PriorSummary:
    """t depends on the first nuisance where it does so at +-1 sigma."""
    rng = np.random.default_rng(8)
    truth = rng.standard_normal((TOYS, 2))
    t = rng.chisquare(DOF, TOYS) + shift * np.abs(truth[:, 0])
    names = ("jet_energy_scale", "normalisation")
    return PriorSummary(**key, dependence=prior_dependence(t, truth, names, 45.0, 9.5))


def _power(what: Any, toys: Any, null: Any) -> SignalPower:
    curve = power_curve(toys, null, np.linspace(0, 5, 11))
    power = tuple(float(p) if ok else None for p, ok in zip(curve.power, curve.resolved, strict=True))
    z_alpha, low, high = (tuple(x.tolist()) for x in (curve.z_alpha, curve.low, curve.high))
    return SignalPower(**what, null=null.name, z_alpha=z_alpha, power=power, low=low, high=high)


def small_table(text="1.08 +0.11 -0.10"):
    """A table with an interval, a bound, the paper's number and something to escape."""
    cells = (Cell(text, 1.08, 0.98, 1.19, ">= 2.81"), Cell("<= 1e-06", 1e-6))
    return Table(
        "t", "A_title", "50 % of χ²", ("ν",), (Column("a", "G"), Column("b")), (Row(("0",), cells),), "Z"
    )
