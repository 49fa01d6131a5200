"""summary.json: the numbers of the report but those of observed files, by the keys of docs/summary.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from covad import __version__
from covad.inference.closure import (
    FalsePositives,
    closes,
    closure_table,
    false_positives,
    holm,
    median_shift,
)
from covad.inference.goodness import (
    FEWEST_PER_BIN,
    PEARSON_DOF,
    PEARSON_DOF_QUADRATIC,
    GoodnessOfFit,
    chi2_law,
    one_sample,
)
from covad.inference.intervals import Float64
from covad.inference.power import power_curve
from covad.inference.significance import median_z
from covad.results.collect import Group, RunToys, null_name
from covad.results.extrapolated import is_extrapolated
from covad.runs.directory import space_name
from covad.storage.atomic import write_json
from covad.study import Collisions
from covad.study.plan import Entry, main_configuration

SUMMARY = "summary.json"
SUMMARY_SCHEMA = 1
#: Thresholds of the power curves.
Z_ALPHA = np.linspace(0.0, 5.0, 51)


def write_summary(run: RunToys) -> dict[str, Any]:
    """Summarise a run, and keep the summary in it; one that was made of the same is kept."""
    directory = run.directory
    known = directory.read(SUMMARY) or {}
    if known.get("made_of") == run.made_of:
        content = known | {"manifest": directory.read("manifest.json") or {}}
    else:
        content = summarise(run) | {"made_of": run.made_of}
    write_json(directory.path / SUMMARY, content)
    return dict(content)


def summarise(run: RunToys) -> dict[str, Any]:
    """What the toys that are there say; ensembles without toys are left out of the statements."""
    groups = list(run.groups())
    closure = [line for group in groups for line in _closure(group, run.study.seed)]
    return {
        "schema": SUMMARY_SCHEMA,
        "covad": __version__,
        "study": run.study.plain(),
        "manifest": run.directory.read("manifest.json") or {},
        "embeddings": list(_embeddings(run)),
        "spaces": list(_spaces(run)),
        "clips": list(_clips(run)),
        "ensembles": [_ensemble(run, entry) for entry in run.entries],
        "nulls": [_null(group, run.study.seed) for group in groups],
        "closure": closure,
        "significance": [line for group in groups for line in _significance(group)],
        "power": [line for group in groups for line in _power(group)],
        "toys": _counts(run),
        "headline": {"configuration": main_configuration(run.study).label, "closes": _verdicts(closure)},
    }


def _embeddings(run: RunToys) -> Iterator[dict[str, Any]]:
    source = run.study.source
    if not isinstance(source, Collisions):
        return
    for name, settings in source.embeddings.items():
        for fold in range(source.folds):
            metrics = run.directory.model(name, fold) / "metrics.jsonl"
            lines = metrics.read_text().splitlines() if metrics.exists() else []
            history = [json.loads(line) for line in lines]
            yield {"name": name, "alpha": settings.alpha, "fold": fold, "history": history}


def _spaces(run: RunToys) -> Iterator[dict[str, Any]]:
    source = run.study.source
    if not isinstance(source, Collisions):
        return
    for space in run.study.spaces:
        checks = run.directory.read(run.directory.check_file(space))
        if checks is None:
            continue
        kept = ("where", "nu", "chi2", "dof", "p", "residual_share")
        files = run.directory.check_files(source, space)
        folds = {fold: run.directory.read(file) for fold, file in files.items()}
        yield {
            "name": space_name(space),
            "embedding": space[0],
            "order": space[1],
            "reach": checks["reach"],
            "probe": checks["probe"],
            "linearity": checks["linearity"],
            "validation": [{key: line[key] for key in kept} for line in checks["comparisons"]],
            "folds": [
                {"fold": fold, "probe": found["probe"], "reach": found["reach"]}
                for fold, found in folds.items()
                if found is not None
            ],
        }


def _clips(run: RunToys) -> Iterator[dict[str, Any]]:
    tuned = run.directory.tuned_clips()
    for slug, clip in run.directory.clips().items():
        choice = tuned.get(slug, {})
        yield {
            "configuration": run.study.configuration(slug).label,
            "clip": clip,
            "error": choice.get("clip_error"),
            "scan": choice.get("scan", []),
        }


def _ensemble(run: RunToys, entry: Entry) -> dict[str, Any]:
    draw, ensemble = entry.draw, entry.ensemble
    toys = None if ensemble is None else run.toys[ensemble.identity]
    t = run.t(entry)
    return {
        "test": entry.test,
        "configuration": entry.configuration.label,
        "embedding": draw.embedding,
        "treatment": draw.treatment.value,
        "order": draw.response_order,
        "expected": draw.expected,
        "reference": draw.n_reference,
        "nu": list(draw.nu),
        "signal": draw.signal,
        "injected": draw.injected,
        "identity": None if ensemble is None else ensemble.identity,
        "requested": entry.toys,
        "done": len(t),
        "failed": 0 if toys is None else toys.failed,
        "missing": entry.toys if toys is None else toys.missing,
        "unconverged": 0 if toys is None else sum(toy.status == "unconverged" for toy in toys.done),
        "mean": _or_none(t, np.mean),
        "std": _or_none(t, lambda x: np.std(x, ddof=1)),
        "median": _or_none(t, np.median),
        "seconds_per_toy": None if toys is None or not toys.done else float(toys.column("seconds").mean()),
    }


def _or_none(t: Float64, statistic: Any) -> float | None:
    return float(statistic(t)) if len(t) > 1 else None


def _counts(run: RunToys) -> dict[str, int]:
    lines = [_ensemble(run, entry) for entry in run.entries]
    return {key: sum(line[key] for line in lines) for key in ("requested", "done", "failed", "missing")}


def _bins(group: Group, n_toys: int) -> tuple[int, ...]:
    """Pearson's degrees of freedom that so many toys allow."""
    wanted = PEARSON_DOF if group.configuration.order == 1 else PEARSON_DOF_QUADRATIC
    return tuple(dof for dof in wanted if n_toys >= FEWEST_PER_BIN * (dof + 1))


def _null(group: Group, seed: int) -> dict[str, Any]:
    t = group.null.t
    line: dict[str, Any] = {
        "test": group.test,
        "configuration": group.configuration.label,
        "dof": group.dof,
        "mean": float(t.mean()),
        "std": float(t.std(ddof=1)),
        "n_toys": len(t),
        "against_chi2": [],
        "chi2_false_positives": [],
        "analytic": None,
    }
    if group.analytic is None:
        line["against_chi2"] = _tests(one_sample(t, chi2_law(group.dof), seed, _bins(group, len(t))))
        line["chi2_false_positives"] = _rates(false_positives(t, group.nulls["chi2"], "R_0"))
    else:
        law = group.analytic.law
        line["analytic"] = {
            "mean": law.mean,
            "std": law.std,
            "effective_dof": law.effective_dof,
            "weights": law.weights.tolist(),
            "against": _tests(one_sample(t, law, seed, _bins(group, len(t)))),
            "false_positives": _rates(false_positives(t, group.nulls["analytic"], "R_0")),
        }
    return line


def _tests(results: tuple[GoodnessOfFit, ...]) -> list[dict[str, Any]]:
    return [{"test": r.test, "statistic": r.statistic, "p": r.p, "text": r.text} for r in results]


def _rates(counted: tuple[FalsePositives, ...]) -> list[dict[str, Any]]:
    return [
        {
            "sigma": line.z_alpha,
            "expected": line.alpha,
            "observed": line.rate,
            "low": line.interval.low if line.interval else None,
            "high": line.interval.high if line.interval else None,
            "p": line.excess_p,
            "detectable_ratio": line.detectable_ratio,
        }
        for line in counted
    ]


def _closure(group: Group, seed: int) -> Iterator[dict[str, Any]]:
    """Of every shifted ensemble: closure is R_nu against R_0; whether they follow chi2 is another matter."""
    if not group.shifted:
        return
    fewest = min(len(toys.t) for toys in (group.null, *group.shifted.values()))
    shifted = {null_name(nu): toys.t for nu, toys in group.shifted.items()}
    table = closure_table(shifted, group.null.t, seed, _bins(group, fewest))
    against_chi2 = _against_chi2(group, shifted, seed, _bins(group, fewest))
    calibration = "analytic" if "analytic" in group.nulls else "R_0"
    shifts = {nu: median_shift(toys.t, group.null.t, seed) for nu, toys in group.shifted.items()}
    for nu, toys in group.shifted.items():
        name, shift = null_name(nu), shifts[nu]
        cells = [(cell.result, cell.corrected_p) for cell in table.tests if cell.ensemble == name]
        yield {
            "test": group.test,
            "configuration": group.configuration.label,
            "nu": list(nu),
            "against_null": _corrected(cells),
            "against_chi2": _corrected(against_chi2.get(name, [])),
            "median_shift": {
                "shift": shift.shift,
                "interval68": asdict(shift.interval_68),
                "interval95": asdict(shift.interval_95),
            },
            "false_positives_null": calibration,
            "false_positives": _rates(false_positives(toys.t, group.nulls[calibration], name)),
            "closes": closes(table, shifts.values()),
        }


def _against_chi2(
    group: Group, shifted: dict[str, Float64], seed: int, bins: tuple[int, ...]
) -> dict[str, list[tuple[GoodnessOfFit, float]]]:
    """Of the network, whose clip was tuned to that law; corrected for the number of these tests."""
    if group.analytic is not None:
        return {}
    law = chi2_law(group.dof)
    results = {name: one_sample(t, law, seed, bins) for name, t in shifted.items()}
    corrected = iter(holm([result.p for tests in results.values() for result in tests]))
    return {name: [(result, float(next(corrected))) for result in tests] for name, tests in results.items()}


def _corrected(cells: list[tuple[GoodnessOfFit, float]]) -> list[dict[str, Any]]:
    return [_tests((result,))[0] | {"corrected_p": p} for result, p in cells]


def _verdicts(closure: list[dict[str, Any]]) -> dict[str, bool | None]:
    """All lines of a test and configuration carry the same verdict."""
    return {f"{line['test']}, {line['configuration']}": line["closes"] for line in closure}


def _signals(group: Group) -> Iterator[tuple[dict[str, Any], Float64]]:
    for (nu, signal, injected), toys in group.signals.items():
        yield (
            {
                "test": group.test,
                "configuration": group.configuration.label,
                "nu": list(nu),
                "signal": signal,
                "injected": injected,
                "n_toys": len(toys.t),
            },
            toys.t,
        )


def _significance(group: Group) -> Iterator[dict[str, Any]]:
    for what, t in _signals(group):
        for name, null in group.nulls.items():
            found = median_z(t, null)
            yield what | {
                "null": name,
                "z": found.z,
                "low": found.interval.low,
                "high": found.interval.high,
                "saturated": found.saturated,
                "extrapolated": is_extrapolated(found.z, name, len(group.null.t)),
                "text": found.text,
                "text_as_in_paper": found.text_as_in_paper,
            }


def _power(group: Group) -> Iterator[dict[str, Any]]:
    for what, t in _signals(group):
        for name, null in group.nulls.items():
            curve = power_curve(t, null, Z_ALPHA)
            yield what | {
                "null": name,
                "z_alpha": Z_ALPHA.tolist(),
                "power": [
                    float(p) if ok else None for p, ok in zip(curve.power, curve.resolved, strict=True)
                ],
                "low": curve.low.tolist(),
                "high": curve.high.tolist(),
            }
