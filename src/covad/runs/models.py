"""The trained models of a run: encoder and response."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.embedding.encoder import Encoder
from covad.errors import UnfinishedRunError
from covad.nplm.dataset import Response
from covad.response.model import ResponseModel
from covad.runs.collisions import CollisionData
from covad.study.plan import Space


def load_models(data: CollisionData, space: Space) -> tuple[Encoder, ResponseModel]:
    """Load encoder and response of a space, of the fold that the toys use; both are verified."""
    encoder = Encoder.load(data.products.encoder(space[0], data.source.fold).verified())
    return encoder, load_response(data, space)


def load_response(data: CollisionData, space: Space) -> ResponseModel:
    """Load the response as tests know it: without the nuisances that the study lets them leave out."""
    embedding, order = space
    model = ResponseModel.load(data.products.response(embedding, data.source.fold, order).verified())
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
