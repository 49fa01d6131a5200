"""ROOT files as experiments have them, written with uproot: lists of objects, weights, and their sums."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

Branches = dict[str, Any]


def lists(rng: np.random.Generator, n_events: int, mean: float) -> dict[str, ak.Array]:
    """Objects with pt, eta and phi, by falling pt; some events have none."""
    counts = rng.poisson(mean, n_events)
    event = np.repeat(np.arange(n_events), counts)
    pt = rng.exponential(30, len(event)).astype(np.float32) + np.float32(5)
    pt = pt[np.lexsort((-pt, event))]
    eta, phi = rng.normal(0, 1.5, len(event)), rng.uniform(-np.pi, np.pi, len(event))
    features = {"pt": pt, "eta": eta.astype(np.float32), "phi": phi.astype(np.float32)}
    return {name: ak.unflatten(values, counts) for name, values in features.items()}


def nano_branches(n_events: int, seed: int = 1) -> Branches:
    """Return the branches of NanoAOD that the ready mapping reads, and some that it does not."""
    rng = np.random.default_rng(seed)
    branches: Branches = {
        "MET_pt": rng.exponential(40, n_events).astype(np.float32),
        "MET_phi": rng.uniform(-np.pi, np.pi, n_events).astype(np.float32),
        "genWeight": np.where(rng.random(n_events) < 0.2, -1.5, 1.5).astype(np.float32),
        "LHEScaleWeight": ak.unflatten(
            rng.normal(1, 0.1, 9 * n_events).astype(np.float32), np.full(n_events, 9)
        ),
        "HLT_IsoMu24": rng.random(n_events) < 0.7,
    }
    for name, mean in (("Electron", 0.7), ("Muon", 0.8), ("Jet", 4.0)):
        branches |= {f"{name}_{feature}": column for feature, column in lists(rng, n_events, mean).items()}
    branches["Jet_pt_jesTotalUp"] = branches["Jet_pt"] * np.float32(1.05)
    branches["Jet_jetId"] = ak.values_astype(ak.ones_like(branches["Jet_pt"]) * 6, np.int32)
    return branches


def sums(*totals: float) -> Branches:
    """Return the branches of the tree `Runs`: one row per run."""
    return {"genEventSumw": np.array(totals)}


def write_root(path: Path, trees: Mapping[str, Branches], **options: Any) -> Path:
    """Write trees; branches are numpy arrays or lists of awkward. The lists of all objects get counters."""
    with uproot.recreate(path, **options) as file:
        for name, branches in trees.items():
            types = {
                key: np.dtype((column.dtype, column.shape[1:]))
                if isinstance(column, np.ndarray)
                else column.type.content
                for key, column in branches.items()
            }
            # one counter per object, as in NanoAOD: nJet for Jet_pt, Jet_eta and so on
            grouped: dict[str, dict[str, Any]] = {}
            for key in [k for k, column in branches.items() if not isinstance(column, np.ndarray)]:
                head, _, feature = key.partition("_")
                if feature:
                    grouped.setdefault(head, {})[feature] = branches[key]
                    del types[key]
            joined = {head: ak.zip(features) for head, features in grouped.items()}
            tree = file.mktree(name, types | {head: a.type.content for head, a in joined.items()})
            tree.extend({key: branches[key] for key in types} | joined)
    return path


def write_nano(path: Path, n_events: int = 500, seed: int = 1, **changes: Any) -> Path:
    """Write a NanoAOD-like file; a branch that is changed to None is left out."""
    branches = {key: c for key, c in (nano_branches(n_events, seed) | changes).items() if c is not None}
    return write_root(path, {"Events": branches, "Runs": sums(300.0, 450.5)})
