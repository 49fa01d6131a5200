"""Stage `clip`, for the convex test: features and ridge per configuration, chosen once."""

from __future__ import annotations

import json

from covad.campaign import Sources, convex_settings, models_to_choose, sizes_of, space
from covad.errors import PlanError
from covad.nplm.capacity import CapacityError
from covad.pipeline.directory import RunDirectory
from covad.study import Configuration, Study
from covad.toys.plan import Source


def choose_features(study: Study, sources: Sources, directory: RunDirectory) -> None:
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
    directory.keep_convex_model(configuration.name, json.loads(chosen.model or ""))
