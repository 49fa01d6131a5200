from pathlib import Path

import numpy as np
import pytest
import torch

from covad.errors import CovadError, FileFormatError
from covad.response.model import ResponseModel, ResponseShape
from covad.storage.tensors import save_weights


def test_polynomial_is_that_of_the_quadratic_response() -> None:
    """nu.g + 1/2 nu.D.nu with symmetric D, written out."""
    nu, g = np.array([0.5, -2.0]), np.array([1.0, 2.0])
    d = np.array([[3.0, 4.0], [4.0, 5.0]])
    columns = np.concatenate([g, d[np.triu_indices(2)]])
    assert columns @ ResponseShape(3, 2, 2).polynomial(nu) == pytest.approx(nu @ g + 0.5 * nu @ d @ nu)
    assert np.array_equal(ResponseShape(3, 2, 1).polynomial(nu), nu)


@pytest.mark.parametrize(("order", "nuisances", "columns"), [(1, 1, 1), (1, 3, 3), (2, 1, 2), (2, 3, 9)])
def test_number_of_columns(order: int, nuisances: int, columns: int) -> None:
    assert ResponseShape(4, nuisances, order, (512, 256, 128, 64, 32)).n_columns == columns


def test_stored_responses_come_back_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ResponseModel(ResponseShape(3, 2, 2, (8,)), n_heads=2)
    z = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    path = tmp_path / "response.safetensors"
    model.save(path, {"encoder": "abc"})
    assert np.array_equal(ResponseModel.load(path).columns(z), model.columns(z))


def test_files_that_are_no_responses_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "response.safetensors"
    ResponseModel(ResponseShape(3, 1, 1, (8,))).save(path, {})
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FileFormatError, match="damaged"):
        ResponseModel.load(path)
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(FileFormatError, match="not a covad model file"):
        ResponseModel.load(path)
    shape = {"n_dimensions": 3, "n_nuisances": 1, "order": 1, "hidden": [8]}
    for settings in ({}, {"response": shape, "heads": 1}, {"response": {**shape, "order": 5}, "heads": 1}):
        save_weights(path, "response", {"a": torch.ones(1)}, settings)
        with pytest.raises(FileFormatError, match="incomplete"):
            ResponseModel.load(path)


def test_other_orders_are_refused() -> None:
    with pytest.raises(CovadError, match="order 1 or 2"):
        ResponseShape(4, 1, 3)
