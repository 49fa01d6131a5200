"""Events with signed weights through encoder, response and checks: each keeps its own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from finished_run import TINY, one_by_one, tiny_study

from covad.embedding.batches import Sampler
from covad.events.files import EventWriter
from covad.events.layout import Events, concatenate
from covad.events.processes import BACKGROUND
from covad.pipeline import checks, encoder, events, response, run_study
from covad.runs.checks import read_checks
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.simulation.simulate import Simulation


def signed_mix(n_events: int) -> Events:
    """Simulated events whose weight tells the process: +-(1 + label), every tenth negative."""
    mix = concatenate(list(Simulation(BACKGROUND, n_events, 7).blocks()))
    signs = np.where(np.arange(n_events) % 10 == 0, -1.0, 1.0)
    return replace(mix, weights=signs * (1.0 + mix.process))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CollisionData:
    """A study that has its response."""
    for module in (events, encoder, response, checks):
        monkeypatch.setattr(module, "run_jobs", one_by_one)
    mix, path = signed_mix(12_000), tmp_path / "signed.h5"
    with EventWriter(path, mix.layout, mix.process_names, mix.provenance, weighted=True) as writer:
        writer.append(mix)
    study = tiny_study(
        source=TINY["source"] | {"background": {"files": [str(path)]}},
        tests={"convex": {"bumps": 5}},
        configurations=[{"treatment": "profiled"}],
    )
    drawn = []
    draw = Sampler._shift
    monkeypatch.setattr(Sampler, "_shift", lambda self, *a: drawn.append(a[0].weights) or draw(self, *a))
    run_study(study, tmp_path / "run", iter, until="response", workers=1)
    assert drawn
    assert all(weights is not None for weights in drawn)
    return CollisionData.of_run(study, RunDirectory(tmp_path / "run"))


def test_every_event_keeps_its_weight(data, monkeypatch):
    judged = []

    def probe(z, labels, fresh_z, fresh_labels, weights, fresh_weights):
        judged.append((np.concatenate([labels, fresh_labels]), np.concatenate([weights, fresh_weights])))
        return linear_probe(z, labels, fresh_z, fresh_labels, weights, fresh_weights)

    linear_probe = checks.linear_probe
    monkeypatch.setattr(checks, "linear_probe", probe)
    checks.check_missing(data, 1)
    ((labels, weights),) = judged
    assert np.array_equal(np.abs(weights), 1.0 + labels)
    assert (weights < 0).mean() == pytest.approx(0.1, abs=0.05)
    found = read_checks(data.products.checks(data.study.spaces[0], 0))
    assert found.probe.majority == pytest.approx(np.bincount(labels, weights).max() / weights.sum(), abs=0.1)
    for comparison in found.comparisons:
        assert sum(comparison.nominal) == pytest.approx(weights.sum())
    assert found.reach.average.fresh_events >= len(labels)
