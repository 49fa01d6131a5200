"""Stage `clip`, for the convex test: features and ridge per configuration, chosen once."""

from __future__ import annotations

import json

from covad.campaign import Sources, convex_settings, models_to_choose, sizes_of, space
from covad.pipeline.directory import RunDirectory
from covad.study import Study


def choose_features(study: Study, sources: Sources, directory: RunDirectory) -> None:
    """Choose what is not known yet."""
    for configuration in models_to_choose(study, directory.convex_models()):
        settings = convex_settings(study, sizes_of(study, configuration))
        if settings is not None:
            chosen = settings.chosen(sources[space(configuration)])
            directory.keep_convex_model(configuration.name, json.loads(chosen.model or ""))
