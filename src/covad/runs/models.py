"""The trained models of a run: encoder, standardisation of z, response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.embedding.encoder import Encoder
from covad.errors import FileFormatError
from covad.nplm.dataset import Response
from covad.response.model import ResponseModel
from covad.runs.collisions import CollisionData
from covad.runs.directory import SCALE, RunDirectory, space_name
from covad.study.plan import Space


@dataclass(frozen=True)
class Standardisation:
    """z is standardised once for the study, on the reference split."""

    centre: NDArray[np.float32]
    width: NDArray[np.float32]

    @classmethod
    def of(cls, z: NDArray[np.float32]) -> Standardisation:
        wide = z.astype(np.float64)
        return cls(wide.mean(axis=0).astype(np.float32), wide.std(axis=0).astype(np.float32))

    def __call__(self, z: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray((z - self.centre) / self.width)

    def plain(self) -> dict[str, list[float]]:
        return {"centre": self.centre.tolist(), "width": self.width.tolist()}

    @classmethod
    def restore(cls, content: Mapping[str, Any]) -> Standardisation:
        return cls(*(np.array(content[key], dtype=np.float32) for key in ("centre", "width")))


def load_models(data: CollisionData, space: Space) -> tuple[Encoder, ResponseModel]:
    """Load encoder and response of a space, of the fold that the toys use."""
    embedding, order = space
    encoder = Encoder.load(data.directory.encoder(embedding, data.source.fold))
    return encoder, ResponseModel.load(data.directory.response(embedding, data.source.fold, order))


def load_scale(directory: RunDirectory, space: Space) -> Standardisation:
    """Return the standardisation of z that the pools of a space were made with."""
    file = f"pools/{space_name(space)}/{SCALE}"
    try:
        return Standardisation.restore(directory.read(file))
    except (KeyError, TypeError, ValueError) as failure:
        raise FileFormatError(f"{directory.path / file}: cannot be understood ({failure!r})") from failure


def response_of(model: ResponseModel, z: NDArray[np.float32]) -> Response:
    """Return the response as the likelihood takes it: g, and D as symmetric matrices."""
    columns, k = model.columns(z), model.shape.n_nuisances
    if model.shape.order == 1:
        return Response(columns)
    quadratic = np.zeros((len(z), k, k), dtype=np.float32)
    upper = np.triu_indices(k)
    quadratic[:, upper[0], upper[1]] = quadratic[:, upper[1], upper[0]] = columns[:, k:]
    return Response(columns[:, :k], quadratic)
