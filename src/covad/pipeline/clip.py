"""Stage `clip`: W of the network per configuration, with toys of their own stream."""

from __future__ import annotations

import logging
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from covad.campaign import Sources, clips_to_tune, network_settings, null_draw, space
from covad.errors import InferenceError, PlanError
from covad.nplm.dataset import Float64
from covad.pipeline.directory import RunDirectory
from covad.study import Configuration, Study
from covad.toys.plan import Ensemble, Request, Source, Stream
from covad.toys.run import Backend, run_toys

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
    clip = round(choice.clip, CLIP_DIGITS)
    log.info("clip of the network, %s: W = %g +- %.2g", configuration.name, clip, choice.clip_error)
    directory.keep_clip(configuration.name, asdict(choice) | {"clip": clip})
