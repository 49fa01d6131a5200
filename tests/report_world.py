"""A made-up finished run for tests of the report: its summary by the documented keys, and its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from covad.inference.closure import closes, closure_table, false_positives, holm, median_shift
from covad.inference.goodness import chi2_law, one_sample
from covad.inference.power import power_curve
from covad.inference.significance import Chi2Null, EmpiricalNull, median_z
from covad.observed.result import Observation
from covad.report.evidence import Evidence
from covad.results.extrapolated import is_extrapolated

POINTS = ((0.0,), (1.0,), (-1.0,))
INJECTIONS = (("hpm", 50.0), ("hpm", 100.0), ("lq", 50.0))
CONFIGURATIONS = (
    ("contrastive", "none", 1),
    ("contrastive", "profiled", 1),
    ("covariant", "profiled", 1),
    ("covariant", "profiled", 2),
)
TOYS = 60
_PROBE = {"accuracy": 0.931, "accuracy_uncertainty": 0.001, "balanced_accuracy": 0.85, "majority": 0.59}
_DEPARTURE = {"departure": 0.05, "low": 0.0, "high": 0.09}
DOF = 45


def write_nothing(self: Any, file: Any, **options: Any) -> None:
    """In place of `Canvas.savefig`: drawing is tested elsewhere, and takes most of the time."""
    if options["format"] == "svg":
        file.write("<svg></svg>")


def name(embedding: str, treatment: str, order: int) -> str:
    return f"{embedding}, {treatment}" + (", quadratic" if order == 2 else "")


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
    embeddings = {c[0]: 0.0 if c[0] == "contrastive" else 30.0 for c in configurations if c[0] != "latent"}
    summary: dict[str, Any] = {
        "schema": 1,
        "covad": "0.0",
        "study": _study(configurations, injections, tests),
        "manifest": {
            "versions": {"numpy": "2"},
            "machine": {"cores": 2},
            "seconds": {"encoder": 60.0, "toys": 12.0},
        },
        "embeddings": [_embedding(key, alpha) for key, alpha in embeddings.items()],
        "spaces": [],
        "clips": [],
        **{key: [] for key in ("ensembles", "nulls", "closure", "significance", "power")},
        "toys": {},
        "headline": {"configuration": _main(configurations), "closes": {}},
    }
    t: dict[str, Any] = {}
    for configuration in configurations:
        for test in tests:
            _add_toys(summary, t, rng, configuration, test, injections, points)
    counted = ("requested", "done", "failed", "missing")
    summary["toys"] = {key: sum(e[key] for e in summary["ensembles"]) for key in counted}
    checks = {}
    for embedding, order in dict.fromkeys((c[0], c[2]) for c in configurations) if checked else ():
        space = f"{embedding}_{'linear' if order == 1 else 'quadratic'}"
        checks[space] = {"comparisons": [_comparison(nu, rng) for nu in (-2.0, -1.0, 1.0, 2.0)]}
        summary["spaces"].append(_space(space, embedding, order, checks[space]["comparisons"]))
    return Evidence(summary, t, checks, observed=observed)


def _main(configurations: tuple[tuple[str, str, int], ...]) -> str:
    proposal = ("covariant", "profiled", 1)
    return name(*(proposal if proposal in configurations else configurations[0]))


def _study(configurations: Any, injections: Any, tests: Any) -> dict[str, Any]:
    kind = "latent" if configurations[0][0] == "latent" else "events"
    return {
        "seed": 1,
        "source": {"kind": kind, "folder": "somewhere"},
        "sizes": {"expected": 10_000.0, "reference": 52_000},
        "signals": {signal: [] for signal, _ in injections},
        "tests": {test: {} for test in tests},
    }


def _embedding(key: str, alpha: float) -> dict[str, Any]:
    history = [
        {"step": s, "contrastive": 5 - s, "covariance": 0.5 - s / 100, "total": 5.0} for s in (1, 2, 3)
    ]
    return {"name": key, "alpha": alpha, "fold": 0, "history": history}


def _space(space: str, embedding: str, order: int, comparisons: list[dict[str, Any]]) -> dict[str, Any]:
    interval = {"low": 9_000.0, "high": 15_000.0}
    open_end = {"low": 8_000.0, "high": None}
    reach = [
        {"nu": [nu], "n_events": n, "interval": ends, "at_shift": 0.25, "fresh_events": 500}
        for nu, n, ends in ((1.0, 12_000.0, interval), (-1.0, None, open_end))
    ]
    kept = ("where", "nu", "chi2", "dof", "p", "residual_share")
    return {
        "name": space,
        "embedding": embedding,
        "order": order,
        "reach": reach,
        "validation": [{key: line[key] for key in kept} for line in comparisons],
        "probe": _PROBE,
        "linearity": [
            {"where": "cells", "direction": [1.0], "size": size, "effect": 0.03 * size, **_DEPARTURE}
            for size in (1.0, 2.0)
        ],
        "folds": [{"fold": fold, "probe": _PROBE, "reach": reach} for fold in range(2)],
    }


def _comparison(nu: float, rng: np.random.Generator) -> dict[str, Any]:
    nominal = np.full(6, 100.0)
    predicted = nominal * (1 + 0.02 * nu * np.linspace(-1, 1, 6))
    return {
        "where": "z0",
        "edges": [-1.0, -0.5, 0.0, 0.5, 1.0],
        "nu": [nu],
        "nominal": nominal.tolist(),
        "observed": (predicted + rng.normal(0, 1, 6)).tolist(),
        "predicted": predicted.tolist(),
        "uncertainty": [1.0] * 6,
        "chi2": 5.0,
        "dof": 5,
        "p": 0.4,
        "residual_share": 0.1,
    }


def _add_toys(
    summary: dict[str, Any],
    t: dict[str, Any],
    rng: np.random.Generator,
    configuration: tuple[str, str, int],
    test: str,
    injections: Any,
    points: Any,
) -> None:
    key = {"test": test, "configuration": name(*configuration)}
    shift = 15.0 if configuration[0] == "contrastive" else 0.0
    background = {nu: _toys(rng, shift * abs(nu[0])) for nu in points}
    for nu, toys in background.items():
        _ensemble(summary, t, key, configuration, nu, None, 0.0, toys)
    null = background[0.0,]
    _null(summary, key, null)
    if len(points) > 1:
        _closure(summary, key, background)
    nulls = {"R_0": EmpiricalNull(null), "chi2" if test == "network" else "analytic": Chi2Null(DOF)}
    nulls |= {f"R_{nu[0]:+g}": EmpiricalNull(toys) for nu, toys in background.items() if nu[0]}
    for nu in points if configuration[1] == "profiled" else points[:1]:
        for signal, injected in injections:
            toys = _toys(rng, 0.4 * injected)
            _ensemble(summary, t, key, configuration, nu, signal, injected, toys)
            what = {**key, "nu": list(nu), "signal": signal, "injected": injected, "n_toys": TOYS}
            for label, law in nulls.items():
                summary["significance"].append(what | {"null": label} | _significance(toys, label, law))
                summary["power"].append(what | {"null": label} | _power(toys, law))


def _toys(rng: np.random.Generator, shift: float) -> Any:
    return rng.chisquare(DOF, TOYS) + shift


def _ensemble(
    summary: Any, t: Any, key: Any, configuration: Any, nu: Any, signal: Any, injected: Any, toys: Any
) -> None:
    identity = f"{key['test']}-{key['configuration']}-{nu}-{signal}-{injected}"
    t[identity] = toys
    embedding, treatment, order = configuration
    line = {"embedding": embedding, "treatment": treatment, "order": order, "nu": list(nu)}
    line |= {"expected": 10_000.0, "reference": 52_000, "signal": signal, "injected": injected}
    line |= {"identity": identity, "requested": TOYS + 3, "done": TOYS, "failed": 1, "missing": 2}
    line |= {"unconverged": 0, "mean": 45.0, "std": 9.5, "median": 44.0, "seconds_per_toy": 0.5}
    summary["ensembles"].append(key | line)


def _tests(results: Any) -> list[dict[str, Any]]:
    return [{"test": r.test, "statistic": r.statistic, "p": r.p, "text": r.text} for r in results]


def _null(summary: Any, key: Any, null: Any) -> None:
    against = _tests(one_sample(null, chi2_law(DOF), 1, (10, 25)))
    line = {"dof": DOF, "mean": 45.0, "std": 9.5, "n_toys": TOYS, "against_chi2": [], "analytic": None}
    if key["test"] == "network":
        line["against_chi2"] = against
        clip = {"configuration": key["configuration"], "clip": 1.94, "error": 0.05}
        scan = [{"clip": w, "n_toys": 40, "mean": 20 * w, "error": 1.0, "spread": 9.0} for w in (1, 2, 3)]
        summary["clips"].append(clip | {"scan": scan})
    else:
        weights = [1.0] * DOF
        line["analytic"] = {"mean": 45.0, "std": 9.5, "effective_dof": 45.0, "weights": weights}
        line["analytic"]["against"] = against
    summary["nulls"].append(key | line)


def _closure(summary: Any, key: Any, background: Any) -> None:
    null = background[0.0,]
    shifted = {nu: toys for nu, toys in background.items() if any(nu)}
    table = closure_table({str(nu): toys for nu, toys in shifted.items()}, null, 1, (10, 25))
    moved = {nu: median_shift(toys, null, 1) for nu, toys in shifted.items()}
    verdict = closes(table, moved.values())
    summary["headline"]["closes"][f"{key['test']}, {key['configuration']}"] = verdict
    network = key["test"] == "network"
    for nu, toys in shifted.items():
        cells = [(cell.result, cell.corrected_p) for cell in table.tests if cell.ensemble == str(nu)]
        alone = one_sample(toys, chi2_law(DOF), 1, (10, 25)) if network else ()
        line = {
            "nu": list(nu),
            "against_null": _corrected(cells),
            "against_chi2": _corrected(zip(alone, holm([result.p for result in alone]), strict=True)),
            "median_shift": {
                "shift": moved[nu].shift,
                "interval68": vars(moved[nu].interval_68),
                "interval95": vars(moved[nu].interval_95),
            },
            "false_positives_null": "R_0" if network else "analytic",
            "false_positives": _rates(toys, EmpiricalNull(null) if network else Chi2Null(DOF)),
            "closes": verdict,
        }
        summary["closure"].append(key | line)


def _corrected(cells: Any) -> list[dict[str, Any]]:
    return [_tests([result])[0] | {"corrected_p": float(p)} for result, p in cells]


def _rates(toys: Any, null: Any) -> list[dict[str, Any]]:
    return [
        {
            "sigma": r.z_alpha,
            "expected": r.alpha,
            "observed": r.rate,
            "low": r.interval.low if r.interval else None,
            "high": r.interval.high if r.interval else None,
            "p": r.excess_p,
            "detectable_ratio": r.detectable_ratio,
        }
        for r in false_positives(toys, null, "R")
    ]


def _significance(toys: Any, null: str, law: Any) -> dict[str, Any]:
    found = median_z(toys, law)
    return {
        "z": found.z,
        "low": found.interval.low,
        "high": found.interval.high,
        "saturated": bool(found.saturated),
        "extrapolated": is_extrapolated(found.z, null, TOYS),
        "text": found.text,
        "text_as_in_paper": found.text_as_in_paper,
    }


def _power(toys: Any, law: Any) -> dict[str, Any]:
    z = np.linspace(0, 5, 11)
    curve = power_curve(toys, law, z)
    power = [float(p) if ok else None for p, ok in zip(curve.power, curve.resolved, strict=True)]
    return {"z_alpha": z.tolist(), "power": power, "low": curve.low.tolist(), "high": curve.high.tolist()}
