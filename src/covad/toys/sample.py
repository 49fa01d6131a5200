"""Latent events with their response to the nuisances, and how a dataset is put together from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.errors import PlanError
from covad.nplm.dataset import Dataset, Float32, Float64, Normalisation, Response
from covad.toys.plan import Draw, ToySeeds, Treatment


@dataclass(frozen=True)
class Sample:
    """Latent events and their response."""

    z: Float32
    response: Response

    def __len__(self) -> int:
        return len(self.z)

    def joined(self, other: Sample) -> Sample:
        """These events, then the others."""
        mine, theirs = self.response, other.response
        quadratic = None
        if mine.quadratic is not None and theirs.quadratic is not None:
            quadratic = np.concatenate([mine.quadratic, theirs.quadratic])
        response = Response(np.concatenate([mine.linear, theirs.linear]), quadratic)
        return Sample(np.concatenate([self.z, other.z]), response)


def true_nuisances(draw: Draw, n_nuisances: int) -> Float64:
    """nu of the draw as an array, of the length that the source has."""
    if len(draw.nu) != n_nuisances:
        raise PlanError(f"nu = {list(draw.nu)} has {len(draw.nu)} values, the source {n_nuisances} nuisances")
    return np.array(draw.nu, dtype=np.float64)


def assemble(draw: Draw, reference: Sample, data: Sample, seeds: ToySeeds) -> Dataset:
    """One toy, with auxiliary values thrown around the truth: nu0 ~ N(nu, 1), nu_N0 ~ N(0, sigma)."""
    rng = np.random.default_rng(seeds.auxiliary)
    measured = rng.normal(draw.nu, 1.0)
    normalisation = None
    if draw.normalisation_sigma is not None:
        thrown = float(rng.normal(0.0, draw.normalisation_sigma))
        normalisation = Normalisation(draw.normalisation_sigma, thrown)
    if draw.treatment is Treatment.NONE:
        measured, normalisation = np.empty(0), None
    return Dataset(
        reference=reference.z,
        data=data.z,
        weights=np.full(len(reference), draw.expected / len(reference)),
        reference_response=_known(draw, reference),
        data_response=_known(draw, data),
        measured=measured,
        normalisation=normalisation,
    )


def _known(draw: Draw, sample: Sample) -> Response:
    """As much of the response as the treatment and the order let the test know."""
    if draw.treatment is Treatment.NONE:
        return Response.none(len(sample))
    if draw.response_order == 1:
        return Response(sample.response.linear)
    if sample.response.quadratic is None:
        raise PlanError("response order 2 needs a source with quadratic response columns")
    return sample.response
