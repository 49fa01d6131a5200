from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from covad.errors import FileFormatError
from covad.storage.digests import file_digest
from covad.storage.tensors import load_weights, save_weights


def test_weights_and_settings_come_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "model.safetensors"
    save_weights(path, "encoder", {"a": torch.arange(3.0)}, {"trained_on": {"events": "abc"}})
    tensors, settings = load_weights(path, "encoder")
    assert tensors["a"].tolist() == [0, 1, 2]
    assert settings == {"trained_on": {"events": "abc"}}
    before = file_digest(path)
    save_weights(path, "encoder", {"a": torch.arange(3.0)}, {"trained_on": {"events": "abd"}})
    assert file_digest(path) != before


@pytest.mark.parametrize(
    "header", [None, "[]", "{}", '{"kind": "encoder"}', '{"kind": "encoder", "settings": 3}', "{"]
)
def test_headers_that_covad_did_not_write_are_refused(tmp_path: Path, header: str | None) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(1)}, path, None if header is None else {"covad": header})
    with pytest.raises(FileFormatError, match=r"model\.safetensors: not a covad model file"):
        load_weights(path, "encoder")


def test_no_flip_changes_what_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {"weight": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(3)}
    settings = {"seed": 1, "losses": [0.5, float("nan")]}
    save_weights(path, "encoder", tensors, settings)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"model\.safetensors"):
            load_weights(path, "encoder")
