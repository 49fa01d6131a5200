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
