"""Which ensembles a study asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from covad.study import Collisions, Configuration, Sizes, Study
from covad.toys.ensembles import Draw, Ensemble, Request, Source, Stream, Treatment, TunedTest
from covad.toys.tests import TunedConvex, TunedNetwork

#: (embedding, order of the response).
Space = tuple[str, int]
#: W per configuration, by its name, as far as it is known.
Clips = Mapping[str, float]
Sources = Mapping[Space, Source]
#: Basis and ridge of the convex test per configuration, by its name, as JSON.
ConvexModels = Mapping[str, str]


@dataclass(frozen=True)
class Entry:
    """One line of the plan; the ensemble is None while its pools, clip or basis are missing."""

    test: str
    configuration: Configuration
    draw: Draw
    toys: int
    ensemble: Ensemble | None


def space(configuration: Configuration) -> Space:
    return configuration.embedding or "", configuration.order


def fixed_clips(study: Study) -> dict[str, float]:
    """The clips that the study file itself gives."""
    network = study.tests.network
    if network is None or network.clip == "tune":
        return {}
    return dict.fromkeys([c.name for c in study.configurations], network.clip)


def clips_to_tune(study: Study, known: Clips) -> list[Configuration]:
    """W depends on the space, the number of events and what the test knows about the nuisances."""
    return [] if study.tests.network is None else [c for c in study.configurations if c.name not in known]


def models_to_choose(study: Study, known: ConvexModels) -> list[Configuration]:
    """Configurations whose convex test has no basis yet: it depends on the space and the sizes."""
    return [] if study.tests.convex is None else [c for c in study.configurations if c.name not in known]


def sizes_of(study: Study, configuration: Configuration) -> Sizes:
    return configuration.sizes or study.sizes


def main_configuration(study: Study) -> Configuration:
    """The one that speaks for the study: in the report's summary, and for observed files unless told.

    The paper's proposal if it is there (covariant embedding, nuisances profiled, linear response, of the
    study's own sizes), else the first that profiles the nuisances, else the first.
    """
    profiled = [c for c in study.configurations if c.treatment is Treatment.PROFILED]
    proposals = [c for c in profiled if _covariant(study, c) and c.order == 1 and not _own_sizes(study, c)]
    return (proposals or profiled or list(study.configurations))[0]


def _covariant(study: Study, configuration: Configuration) -> bool:
    """Whether the covariance loss had a part in the training of its embedding."""
    if not isinstance(study.source, Collisions) or configuration.embedding is None:
        return False
    return study.source.embeddings[configuration.embedding].alpha > 0


def _own_sizes(study: Study, configuration: Configuration) -> bool:
    return sizes_of(study, configuration) != study.sizes


def null_draw(study: Study, configuration: Configuration) -> Draw:
    """R_0: background at the central nuisances."""
    sizes = sizes_of(study, configuration)
    return Draw(
        embedding=configuration.embedding or "",
        treatment=configuration.treatment,
        expected=sizes.expected,
        n_reference=sizes.reference,
        nu=tuple(0.0 for _ in study.nu[0]),
        response_order=configuration.order,
        normalisation_sigma=study.normalisation,
    )


def draws(study: Study, configuration: Configuration) -> Iterator[Draw]:
    """Background at every nu, and signals on top.

    Without nuisances in the test, signals are drawn at nu = 0 only: elsewhere the background alone alarms.
    """
    null = null_draw(study, configuration)
    points = configuration.nu or study.nu
    for nu in points:
        yield _with(null, nu)
    if not configuration.signals:
        return
    for nu in points if configuration.treatment is Treatment.PROFILED else (null.nu,):
        for signal, yields in study.signals.items():
            for injected in yields:
                yield _with(null, nu, signal, injected)


def _with(null: Draw, nu: tuple[float, ...], signal: str | None = None, injected: float = 0.0) -> Draw:
    return Draw(**{**vars(null), "nu": nu, "signal": signal, "injected": injected})


def network_settings(study: Study, source: Source, clip: float) -> TunedNetwork:
    """The network test at a given W."""
    network = study.tests.network
    if network is None:
        raise ValueError("the study has no network test")
    widths = (source.n_dimensions, *network.hidden, 1)
    return TunedNetwork(widths=widths, clip=clip, starts=network.starts, hops=network.hops)


def convex_settings(study: Study, sizes: Sizes, model: str | None = None) -> TunedConvex | None:
    """The convex test of datasets of these sizes, with its basis if it is chosen already."""
    convex = study.tests.convex
    if convex is None:
        return None
    return TunedConvex(**convex.model_dump(), **sizes.model_dump(), model=model)


def plan(study: Study, sources: Sources, clips: Clips, models: ConvexModels | None = None) -> list[Entry]:
    """All ensembles of the study.

    Toys of the convex test are drawn and judged with its basis, but counted by an identity that does not
    hold it: without `models` its ensembles are there all the same.
    """
    return [
        _entry(study, sources, configuration, draw, name, settings)
        for configuration in study.configurations
        for draw in draws(study, configuration)
        for name, settings in _tests(study, sources, configuration, clips, models)
    ]


def _tests(
    study: Study, sources: Sources, configuration: Configuration, clips: Clips, models: ConvexModels | None
) -> Iterator[tuple[str, TunedTest | None]]:
    where = space(configuration)
    source, clip = sources.get(where), clips.get(configuration.name)
    if study.tests.network is not None:
        known = None if source is None or clip is None else network_settings(study, source, clip)
        yield "network", known
    if study.tests.convex is not None:
        model = None if models is None else models.get(configuration.name)
        waiting = source is None or (models is not None and model is None)
        yield "convex", None if waiting else convex_settings(study, sizes_of(study, configuration), model)


def _entry(
    study: Study,
    sources: Sources,
    configuration: Configuration,
    draw: Draw,
    test: str,
    settings: TunedTest | None,
) -> Entry:
    ensemble = None
    if settings is not None:
        ensemble = Ensemble(draw, settings, sources[space(configuration)], study.seed, Stream.TOYS)
    return Entry(test, configuration, draw, _toys(study, configuration, draw), ensemble)


def _toys(study: Study, configuration: Configuration, draw: Draw) -> int:
    toys = configuration.toys or study.toys
    return toys if draw.signal is not None else configuration.background_toys or toys


def background_first(entries: list[Entry]) -> list[Entry]:
    """The order of computation: closure is known before sensitivity."""
    return sorted(entries, key=lambda entry: entry.draw.signal is not None)


def requests(entries: list[Entry]) -> list[Request]:
    """The toys that can be run now."""
    return [Request(entry.ensemble, entry.toys) for entry in entries if entry.ensemble is not None]
