"""The trained models of a run: encoder and response."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.embedding.encoder import Encoder
from covad.nplm.dataset import Response
from covad.response.model import ResponseModel
from covad.runs.collisions import CollisionData
from covad.study.plan import Space


def load_models(data: CollisionData, space: Space) -> tuple[Encoder, ResponseModel]:
    """Load encoder and response of a space, of the fold that the toys use; both are verified."""
    (embedding, order), fold, products = space, data.source.fold, data.products
    encoder = Encoder.load(products.encoder(embedding, fold).verified())
    return encoder, ResponseModel.load(products.response(embedding, fold, order).verified())


def response_of(model: ResponseModel, z: NDArray[np.float32]) -> Response:
    """Return the response as the likelihood takes it: g, and D as symmetric matrices."""
    columns, k = model.columns(z), model.shape.n_nuisances
    if model.shape.order == 1:
        return Response(columns)
    return Response(columns[:, :k], model.shape.of_columns(columns[:, k:]))
