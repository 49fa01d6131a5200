"""The models of a run: spaces, which turn events into z, and responses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.embedding.device import embedding_device
from covad.embedding.encoders import load_encoder
from covad.embedding.spaces import JoinedSpace, ObservableSpace, SpaceMap
from covad.errors import UnfinishedRunError
from covad.nplm.dataset import Response
from covad.response.model import ResponseModel
from covad.runs.collisions import CollisionData
from covad.study import spaces as entries
from covad.study.plan import Space


def load_space(data: CollisionData, name: str, fold: int | None = None) -> SpaceMap:
    """Load the map from events to z of a space, verified; by default of the fold that the toys use."""
    fold = data.source.fold if fold is None else fold
    entry, path = data.source.spaces[name], data.products.space(name, fold).verified()
    match entry:
        case entries.LearnedSpace():
            return load_encoder(path).to(embedding_device(data.source.training.device))
        case entries.ObservablesSpace():
            return ObservableSpace.load(path, data.source.folder, f"source.spaces.{name}")
    return JoinedSpace.load(path, {part: load_space(data, part, fold) for part in entry.of})


def load_models(data: CollisionData, space: Space) -> tuple[SpaceMap, ResponseModel]:
    """Load a space and its response, of the fold that the toys use; both are verified."""
    return load_space(data, space[0]), load_response(data, space)


def load_response(data: CollisionData, space: Space) -> ResponseModel:
    """Load the response as tests know it: without the nuisances that the study lets them leave out."""
    name, order = space
    model = ResponseModel.load(data.products.response(name, data.source.fold, order).verified())
    pruned = data.products.pruned(space)
    if pruned is None:
        raise UnfinishedRunError(
            f"{data.directory.path}: the stage 'checks' has not run yet; `covad run` goes on"
        )
    model.leave_out([data.source.nuisances.index(name) for name in pruned])
    return model


def response_of(model: ResponseModel, z: NDArray[np.float32]) -> Response:
    """Return the response as the likelihood takes it: g, and D as symmetric matrices."""
    columns, k = model.columns(z), model.shape.n_nuisances
    if model.shape.order == 1:
        return Response(columns)
    return Response(columns[:, :k], model.shape.of_columns(columns[:, k:]))
