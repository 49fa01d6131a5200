"""Devices: those that are there are taken, others are refused; only the CPU can be tried here."""

from pathlib import Path

import pytest
import torch
from encoders import make_training

from covad.embedding.device import embedding_device, training_device
from covad.errors import TrainingError


@pytest.fixture
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("_no_gpu")
def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert training_device("auto") == training_device("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(
            TrainingError, match=rf"source\.training\.device: torch finds no '{name}' here \(it finds cpu\)"
        ):
            training_device(name)
        assert embedding_device(name) == torch.device("cpu")
    with pytest.raises(TrainingError, match="torch finds no 'cuda' here"):
        make_training(tmp_path, device="cuda")


def test_auto_takes_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert training_device("auto") == embedding_device("auto") == torch.device("cuda")
    assert embedding_device("cpu") == torch.device("cpu")


def test_a_training_goes_on_wherever_it_is(tmp_path: Path) -> None:
    """The device is no part of what a checkpoint must agree in."""
    make_training(tmp_path).run(until=10)
    resumed = make_training(tmp_path, device="cpu")
    resumed.run()
    assert resumed.step == 30
