"""L_keep against slow, obvious implementations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoders import ENCODER, SETTINGS, UNTRAINED_KINDS, labelled, make_training
from samples import random_events

from covad.embedding.batches import Batch, ChangedBatch, Sampler
from covad.embedding.encoders import load_encoder
from covad.embedding.keep import (
    OBSERVABLES,
    KeepAll,
    KeepChanges,
    KeepInputs,
    KeepObservables,
    KeepVariance,
    make_keep,
    observables_there,
)
from covad.embedding.metrics import read_metrics
from covad.embedding.settings import TrainingSettings
from covad.errors import CovadError, TrainingError
from covad.events.layout import Collection, EventLayout
from covad.events.observables import BUILT_IN
from covad.events.selection import Selection

KEEP: dict[str, Any] = {"beta": 2.0, "keep": "observables"}
#: z of no changed event.
NONE = torch.zeros(0, 2)


def batch_of(n_events: int = 40) -> Batch:
    events = labelled(n_events, 3)
    return Batch(events.particles, events.process.astype(np.int64), ())


def settings(keep: str) -> TrainingSettings:
    return SETTINGS.changed(beta=1.0, keep=keep)


@torch.no_grad()
def test_observables_are_predicted_by_their_definition() -> None:
    """Mean squared error of every standardised observable, event by event."""
    events, batch = labelled(500, 1), batch_of()
    loss = KeepObservables(events, 2, settings("observables"))
    z = torch.randn(40, 2, generator=torch.Generator().manual_seed(1))
    answers = loss.decoder(z).numpy()
    errors = []
    names = [name for name in OBSERVABLES if BUILT_IN[name](events).std() > 1e-6]
    for column, name in enumerate(names):
        known, wanted = BUILT_IN[name](events), BUILT_IN[name](labelled(40, 3))
        for event in range(40):
            target = (wanted[event] - known.mean()) / known.std()
            errors.append((answers[event, column] - target) ** 2)
    assert answers.shape == (40, len(names))
    assert float(loss(z, NONE, batch)) == pytest.approx(np.mean(errors), rel=1e-4)


@torch.no_grad()
def test_inputs_are_predicted_by_their_definition() -> None:
    events, batch = labelled(500, 1), batch_of()
    loss = KeepInputs(events, 2, settings("inputs"))
    z = torch.randn(40, 2, generator=torch.Generator().manual_seed(1))
    known, wanted = loss.targets(events.particles), loss.targets(batch.particles)
    filled = (events.particles[..., 0] > 0).mean(axis=0)
    errors, column = [], 0
    for number in range(known.shape[1]):
        if filled[number // 5] < 0.01 or known[:, number].std() < 1e-6:
            continue
        for event in range(40):
            target = (wanted[event, number] - known[:, number].mean()) / known[:, number].std()
            errors.append((float(loss.decoder(z)[event, column]) - target) ** 2)
        column += 1
    assert column == len(loss.chosen)
    assert float(loss(z, NONE, batch)) == pytest.approx(np.mean(errors), rel=1e-4)


def test_inputs_are_those_of_the_event_frame() -> None:
    """Slot by slot: scaled log momentum and eta, sine and cosine of the relative azimuth, presence."""
    events = labelled(200, 1)
    loss = KeepInputs(events, 2, settings("inputs"))
    table = loss.targets(events.particles).reshape(200, 19, 5)
    assert (table[..., 4] == (events.particles[..., 0] > 0)).all()
    assert (table[events.particles[..., 0] == 0] == 0).all()
    electron = table[:, 1]
    np.testing.assert_allclose(electron[:, 2:4], [[0.0, 1.0]] * 200, atol=1e-6)
    momenta = np.log(events.particles[:, 1, 0].astype(np.float64))
    np.testing.assert_allclose(electron[:, 0], (momenta - momenta.mean()) / momenta.std(), atol=1e-4)


def test_variance_is_its_definition() -> None:
    rng = np.random.default_rng(1)
    labels = np.array([0] * 20 + [1] * 12 + [2] * 3)
    z = rng.normal(size=(35, 3)) * [0.3, 2.0, 0.8] + labels[:, None]
    total = 0.0
    for label, n in ((0, 20), (1, 12)):  # three events have no spread worth measuring
        own = z[labels == label]
        mean = [sum(column) / n for column in own.T]
        cov = [
            [sum((e[i] - mean[i]) * (e[j] - mean[j]) for e in own) / (n - 1) for j in range(3)]
            for i in range(3)
        ]
        variance = sum(max(0.0, 1.0 - np.sqrt(cov[i][i] + 1e-6)) for i in range(3)) / 3
        mixed = sum(cov[i][j] ** 2 for i in range(3) for j in range(3) if i != j) / 3
        total += n / 32 * (variance + mixed)
    batch = Batch(np.zeros((35, 1, 1), np.float32), labels, ())
    assert float(KeepVariance()(torch.from_numpy(z), NONE, batch)) == pytest.approx(total, rel=1e-9)


def test_variance_of_collapsed_classes_is_one() -> None:
    labels = np.repeat([0, 1], 20)
    points = torch.from_numpy(labels.astype(np.float64))[:, None].repeat(1, 2)
    batch = Batch(np.zeros((40, 1, 1), np.float32), labels, ())
    assert float(KeepVariance()(points, NONE, batch)) == pytest.approx(1.0, abs=2e-3)
    alone = Batch(np.zeros((40, 1, 1), np.float32), np.arange(40), ())
    assert float(KeepVariance()(points, NONE, alone)) == 0.0
    assert float(KeepVariance()(points[:, :1], NONE, batch)) == pytest.approx(1.0, abs=2e-3)  # one dimension


@torch.no_grad()
def test_changes_are_told_apart_by_their_definition() -> None:
    """Cross entropy event by event, over that of the shares of the changes."""
    changes = np.array([0] * 7 + [2] * 5)  # the change 1 has done nothing to any event
    batch = replace(batch_of(), changed=ChangedBatch(np.zeros((12, 1, 1), np.float32), changes))
    loss = KeepChanges(2, 3, settings("changes"))
    random = torch.Generator().manual_seed(1)
    z, z_changed = torch.randn(40, 2, generator=random), torch.randn(12, 2, generator=random)
    total = 0.0
    for number, point in enumerate([*z, *z_changed]):
        scores = loss.classifier(point).double().numpy()
        kind = 0 if number < 40 else 1 + changes[number - 40]
        total -= scores[kind] - np.log(np.exp(scores).sum())
    shares = np.array([40, 7, 5]) / 52
    wanted = total / 52 / -(shares * np.log(shares)).sum()
    assert float(loss(z, z_changed, batch)) == pytest.approx(wanted, rel=1e-5)
    with pytest.raises(ValueError, match="needs batches with changed events"):
        loss(z, z_changed, batch_of())


@torch.no_grad()
def test_who_knows_the_numbers_of_changes_alone_has_lost_everything() -> None:
    changes = np.repeat([0, 1], [20, 10])
    batch = replace(batch_of(), changed=ChangedBatch(np.zeros((30, 1, 1), np.float32), changes))
    loss = KeepChanges(2, 2, settings("changes"))
    for parameter in loss.parameters():
        parameter.zero_()
    loss.classifier[-1].bias.copy_(torch.log(torch.tensor([40.0, 20.0, 10.0])))
    assert float(loss(torch.randn(40, 2), torch.randn(30, 2), batch)) == pytest.approx(1.0, abs=1e-6)


@torch.no_grad()
def test_a_batch_without_changed_events_has_no_loss() -> None:
    batch = replace(batch_of(), changed=ChangedBatch(np.zeros((0, 1, 1), np.float32), np.zeros(0, np.int64)))
    assert float(KeepChanges(2, 1, settings("changes"))(torch.randn(40, 2), NONE, batch)) == 0.0
    events = labelled(500, 1)
    events.particles[:, events.layout.slots("jet")] = 0
    sampler = Sampler(events, (), Selection(), batch_size=40, seed=1, changes=("jet_as_lepton",))
    with pytest.raises(
        TrainingError, match=r"no event in a batch .*jet_as_lepton.*source\.training\.changes"
    ):
        make_keep(sampler, 2, settings("changes"))


@torch.no_grad()
def test_several_kinds_are_their_mean() -> None:
    training = SETTINGS.changed(beta=1.0, keep=("observables", "variance"))
    events = labelled(500, 1)
    sampler = Sampler(events, (), Selection(), batch_size=40, seed=1)
    loss = make_keep(sampler, 2, training)
    assert isinstance(loss, KeepAll)
    z, batch = torch.randn(40, 2), batch_of()
    each = [float(part(z, NONE, batch)) for part in loss.parts]
    assert float(loss(z, NONE, batch)) == pytest.approx(sum(each) / 2)
    assert [type(part) for part in loss.parts] == [KeepObservables, KeepVariance]


def test_observables_of_a_layout_that_has_few() -> None:
    layout = EventLayout((Collection("met", 1, ("pt", "phi")), Collection("photon", 2)))
    assert observables_there(layout) == ("log_met",)
    with pytest.raises(TrainingError, match="take keep: inputs"):
        observables_there(EventLayout((Collection("photon", 2),)))
    events = random_events(100, 1, EventLayout((Collection("tau", 3), Collection("jet", 4))))
    assert KeepObservables(events, 2, settings("observables")).decoder[-1].out_features > 3


@pytest.mark.parametrize("keep", ["observables", "inputs", "variance", "changes", ("observables", "changes")])
@pytest.mark.parametrize("kind", ["transformer-event", "mlp-event"])
def test_training_lowers_what_is_lost_and_resumes(
    tmp_path: Path, keep: str | tuple[str, ...], kind: str
) -> None:
    wanted: dict[str, Any] = {"beta": 3.0, "keep": keep, "contrast": 0.2, "steps": 60, "validate_every": 20}
    encoder = UNTRAINED_KINDS[kind]
    whole = make_training(tmp_path / "whole", encoder, **wanted)
    trained = whole.run()
    history = whole.history
    if keep != "variance":  # which random weights have too, and the contrast takes away
        assert history[-1].keep < history[0].keep
    for line in history:
        total = 0.2 * line.contrastive + 5.0 * line.covariance + 3.0 * line.keep
        assert line.total == pytest.approx(total, rel=1e-12)
    assert read_metrics(tmp_path / "whole" / "metrics.jsonl") == tuple(history)
    make_training(tmp_path / "parts", encoder, **wanted).run(until=20)
    parts = make_training(tmp_path / "parts", encoder, **wanted)
    parts.run()
    assert parts.history == history
    trained.save(tmp_path / "e.safetensors", {})
    events = whole.sampler.events
    again = load_encoder(tmp_path / "e.safetensors", events.layout)
    assert (again.encode(events.particles) == trained.encode(events.particles)).all()


def test_without_labels_z_learns_from_observables_alone(tmp_path: Path) -> None:
    training = make_training(tmp_path, UNTRAINED_KINDS["mlp-event"], **KEEP, contrast=0, alpha=0, steps=40)
    before = training.validation.batch(0)
    training.run()
    assert [m.total for m in training.history] == pytest.approx([2.0 * m.keep for m in training.history])
    assert training.history[-1].keep < 0.95
    relabelled = make_training(
        tmp_path / "other", UNTRAINED_KINDS["mlp-event"], **KEEP, contrast=0, alpha=0, steps=40
    )
    events = relabelled.sampler.events
    object.__setattr__(
        relabelled.sampler, "events", type(events)(**{**vars(events), "process": events.process[::-1]})
    )
    relabelled.run()
    same = [t.model.encoder.encode(before.particles) for t in (training, relabelled)]
    np.testing.assert_array_equal(*same)


def test_metrics_without_keep_do_not_mention_it(tmp_path: Path) -> None:
    training = make_training(tmp_path, ENCODER, steps=10)
    training.run()
    assert set(training.history[0].told()) == {"step", "contrastive", "covariance", "total"}
    assert training.model.keep is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep": "everything", "beta": 1.0},
        {"beta": 1.0},
        {"keep": "inputs"},
        {"contrast": 0.0},
        {"beta": -1.0, "keep": "inputs"},
        {"beta": 1.0, "keep": ("inputs", "inputs")},
        {"beta": 1.0, "keep": ()},
        {"beta": 1.0, "keep": ("inputs", "everything")},
        {"beta": 1.0, "keep": "changes", "changes": ()},
    ],
)
def test_objectives_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CovadError):
        SETTINGS.changed(**wrong)
