"""Stage `tune`: the basis of the convex test and W of the network, per configuration.

W is found with toys of their own stream."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from covad.errors import InferenceError, PlanError
from covad.nplm.convex.capacity import CapacityError
from covad.nplm.dataset import Float64
from covad.runs.directory import RunDirectory
from covad.storage.atomic import write_json
from covad.storage.records import plain
from covad.study import Configuration, Study
from covad.study.plan import (
    Sources,
    clips_to_tune,
    convex_settings,
    models_to_choose,
    network_settings,
    null_draw,
    sizes_of,
    space,
)
from covad.toys.ensembles import Ensemble, Request, Source, Stream
from covad.toys.run import Backend, run_toys


def choose_basis(study: Study, sources: Sources, directory: RunDirectory) -> None:
    """Choose what is not known yet."""
    for configuration in models_to_choose(study, directory.convex_models()):
        _choose(study, sources[space(configuration)], directory, configuration)


def _choose(study: Study, source: Source, directory: RunDirectory, configuration: Configuration) -> None:
    settings = convex_settings(study, sizes_of(study, configuration))
    if settings is None:
        raise ValueError("the study has no convex test")
    try:
        chosen = settings.chosen(source)
    except CapacityError as failure:
        raise PlanError(f"tests.convex.capacity, for '{configuration.name}': {failure}") from failure
    known = directory.stored_convex_models()
    write_json(directory.path / "convex.json", known | {configuration.name: json.loads(chosen.model or "")})


log = logging.getLogger(__name__)

#: Digits of W that are kept.
CLIP_DIGITS = 4


def choose_clips(study: Study, sources: Sources, directory: RunDirectory, backend: Backend) -> None:
    """Tune what is not known yet."""
    for configuration in clips_to_tune(study, directory.clips()):
        _tune(study, sources[space(configuration)], directory, configuration, backend)


def _tune(
    study: Study, source: Source, directory: RunDirectory, configuration: Configuration, backend: Backend
) -> None:
    """The toys of the search are stored too, so that a killed one goes on."""
    from covad.inference.clip import choose_clip  # scipy.stats takes its time, and only this needs it

    where = f"tests.network.clip, for '{configuration.name}'"
    draw = null_draw(study, configuration)

    def ensemble(clip: float) -> Ensemble:
        return Ensemble(draw, network_settings(study, source, clip), source, study.seed, Stream.SCAN)

    def toys(clip: float, indices: NDArray[np.intp]) -> Float64:
        request = Request(ensemble(clip), int(indices.max()) + 1)
        run_toys([request], directory.toys, backend)
        found = directory.toys.load(request)
        if not found.done:
            raise PlanError(f"{where}: all toys of the search failed: {found.toys[0].reason}")
        return found.t_by_index()[indices]

    dof = ensemble(1.0).test.degrees_of_freedom
    try:
        choice = choose_clip(toys, dof, seed=study.seed)
    except InferenceError as failure:
        raise PlanError(f"{where}: {failure}") from failure
    choice = replace(choice, clip=round(choice.clip, CLIP_DIGITS))
    log.info("clip of the network, %s: W = %g +- %.2g", configuration.name, choice.clip, choice.clip_error)
    known = directory.tuned_clips()
    write_json(directory.path / "clip.json", known | {configuration.name: plain(choice)})
