import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import ENCODER, SETTINGS, make_training

from covad.embedding.cotrain import CoTraining, learning_rate
from covad.embedding.settings import EncoderSettings
from covad.errors import CovadError, FileFormatError, TrainingError

#: For child processes: the helpers beside these tests can be imported, and one thread is used.
PLACES = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
WITH_TESTS = {**os.environ, "PYTHONPATH": os.pathsep.join(PLACES), "OMP_NUM_THREADS": "1"}


def weights(training: CoTraining) -> dict[str, torch.Tensor]:
    return dict(training.model.state_dict())


def assert_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_training_lowers_the_losses_and_is_repeatable(tmp_path: Path) -> None:
    first = make_training(tmp_path / "a", steps=60, validate_every=20)
    first.run()
    assert first.history[-1].contrastive < first.history[0].contrastive
    second = make_training(tmp_path / "b", steps=60, validate_every=20)
    second.run()
    assert_equal(weights(first), weights(second))
    lines = (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [20, 40, 60]


def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = make_training(tmp_path / "whole")
    whole.run()
    make_training(tmp_path / "pieces").run(until=10)
    make_training(tmp_path / "pieces").run(until=25)  # steps 21 to 25 are lost: the checkpoint is at 20
    last = make_training(tmp_path / "pieces")
    last.run()
    assert_equal(weights(whole), weights(last))
    assert whole.history == last.history


def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    """A real kill -9 while it trains."""
    code = (
        "import sys; from pathlib import Path; from encoders import make_training; "
        "make_training(Path(sys.argv[1]), steps=2000).run()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "killed"], env=WITH_TESTS)
    while not (tmp_path / "killed" / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed, whole = (make_training(tmp_path / name, steps=2000) for name in ("killed", "whole"))
    killed.run(until=50)
    assert killed.step >= 50
    whole.run(until=killed.step)
    assert_equal(weights(whole), weights(killed))


def test_alpha_zero_is_the_contrastive_baseline(tmp_path: Path) -> None:
    training = make_training(tmp_path, alpha=0.0)
    before = {k: v.clone() for k, v in training.model.ratio.state_dict().items()}
    training.run()
    assert all(m.total == m.contrastive for m in training.history)
    assert all(torch.allclose(v, before[k], atol=1e-4) for k, v in training.model.ratio.state_dict().items())


def test_early_stopping_keeps_the_best(tmp_path: Path) -> None:
    training = make_training(tmp_path, steps=400, validate_every=5, patience=3, learning_rate=0.5)
    training.run()
    assert training.step < 400
    best = min(m.total for m in training.history)
    metrics = training.validate()
    assert metrics.contrastive + 5.0 * metrics.covariance == pytest.approx(best)


def test_a_loss_that_is_not_finite_stops_with_the_batch_named(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    training.run(until=10)
    kept = training.checkpoint.read_bytes()
    events = training.sampler.events
    particles = events.particles.copy()
    particles[..., 2] = np.nan
    training.sampler = replace(training.sampler, events=replace(events, particles=particles))
    with pytest.raises(TrainingError, match="not finite in batch 10 of seed 1"):
        training.run()
    assert training.checkpoint.read_bytes() == kept


def test_a_validation_loss_that_is_not_finite_stops_too(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    particles = training.validation.events.particles.copy()
    particles[..., 2] = np.nan
    events = replace(training.validation.events, particles=particles)
    training.validation = replace(training.validation, events=events)
    with pytest.raises(TrainingError, match="validation loss is not finite after 10 steps"):
        training.run()
    assert not training.checkpoint.exists()


def test_a_process_without_events_to_train_on_is_named(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    judge = training.validation.events
    other = replace(judge, process=judge.process + 1, process_names=("w", "qcd", "ttbar"))
    with pytest.raises(TrainingError, match="'ttbar' has no events to train on"):
        CoTraining(training.sampler, replace(training.validation, events=other), ENCODER, SETTINGS, tmp_path)


def test_a_checkpoint_of_other_batches_is_refused(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    training.run(until=10)
    for change in ({"seed": 9}, {"events": training.sampler.events[:1000]}, {"nu_grid": (1.0,)}):
        other = make_training(tmp_path)
        other.sampler = replace(other.sampler, **change)
        with pytest.raises(TrainingError, match="other batches"):
            other.run()
    other = make_training(tmp_path)
    other.validation = replace(other.validation, seed=9)
    with pytest.raises(TrainingError, match="other validation"):
        other.run()


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    training.run(until=10)
    with pytest.raises(TrainingError, match="other training settings"):
        make_training(tmp_path, learning_rate=0.1).run()
    other = make_training(tmp_path)
    wider = CoTraining(other.sampler, other.validation, ENCODER.changed(width=16), SETTINGS, tmp_path)
    with pytest.raises(FileFormatError, match="does not fit"):
        wider.run()


MLP = EncoderSettings(kind="mlp", hidden=(8,), projector=8)
IN_FRAME = ENCODER.changed(frame="event")


@pytest.mark.parametrize(
    ("encoder", "other"),
    [
        (MLP, MLP.changed(frame="event")),
        (IN_FRAME, IN_FRAME.changed(axis=("jet",))),
        (ENCODER, ENCODER.changed(heads=4)),
    ],
)
def test_a_checkpoint_of_another_encoder_with_the_same_weights_is_refused(
    encoder: EncoderSettings, other: EncoderSettings, tmp_path: Path
) -> None:
    make_training(tmp_path, encoder).run(until=10)
    with pytest.raises(TrainingError, match="other encoder settings"):
        make_training(tmp_path, other).run()
    make_training(tmp_path, encoder).run(until=11)


def test_a_checkpoint_of_before_there_were_kinds_of_encoders_goes_on(tmp_path: Path) -> None:
    for name, encoder in (("plain", ENCODER), ("mlp", MLP)):
        training = make_training(tmp_path / name, encoder)
        (tmp_path / name).mkdir()
        training._identity.pop("encoder")
        training.run(until=10)
    resumed = make_training(tmp_path / "plain")
    resumed.run(until=11)
    assert resumed.step == 11
    with pytest.raises(TrainingError, match="other encoder settings"):
        make_training(tmp_path / "mlp", MLP).run()


@pytest.mark.parametrize("keep", [1000, -1])
def test_a_damaged_checkpoint_starts_the_training_again(
    tmp_path: Path, keep: int, caplog: pytest.LogCaptureFixture
) -> None:
    training = make_training(tmp_path)
    training.run(until=10)
    whole = training.checkpoint.read_bytes()
    training.checkpoint.write_bytes(whole[:keep])
    make_training(tmp_path).run(until=10)
    assert "the training starts again" in caplog.text
    assert training.checkpoint.read_bytes() == whole


def test_schedule_warms_up_and_falls_to_zero() -> None:
    rates = [learning_rate(step, SETTINGS) for step in range(SETTINGS.steps + 1)]
    assert max(rates) == pytest.approx(SETTINGS.learning_rate)
    assert rates.index(max(rates)) in (4, 5)
    assert rates[-1] == pytest.approx(0)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"alpha": -1.0}, {"contrast_on": "x"}, {"learning_rate": 0.0}]
)
def test_impossible_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(CovadError):
        SETTINGS.changed(**wrong)
