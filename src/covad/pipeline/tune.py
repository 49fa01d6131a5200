"""Stage `tune`: the bumps of the tests that have some and W of the network, for every configuration."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from covad.errors import InferenceError, PlanError
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.convex.basis import GaussianBasis, dimensions_of
from covad.nplm.convex.capacity import CapacityError
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Float64
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.tuned import plain_test
from covad.storage.atomic import write_json
from covad.storage.records import write_record
from covad.study import Configuration, Study
from covad.study.plan import (
    Sources,
    clips_to_tune,
    fixed_clips,
    null_draw,
    space,
    tuned_network,
    tuned_on_bumps,
)
from covad.toys.ensembles import Ensemble, Request, Source, Stream
from covad.toys.run import Backend, run_toys
from covad.toys.tests import TunedAdaptive, TunedConvex

if TYPE_CHECKING:
    from covad.inference.clip import ClipChoice

log = logging.getLogger(__name__)

#: Digits of W that are kept.
CLIP_DIGITS = 4


def choose_bases(products: Products, sources: Sources) -> None:
    """Choose centres, widths and ridges where they are not known yet."""
    study = products.study
    for configuration in study.configurations:
        source = sources[space(configuration)]
        for name, tuned in tuned_on_bumps(study, configuration).items():
            product = products.basis(configuration, source, name)
            if product.make_room():
                write_json(product.path, plain_test(_choose(name, tuned, configuration, source)))
                product.note()


def _choose(
    name: str, tuned: TunedConvex | TunedAdaptive, configuration: Configuration, source: Source
) -> ConvexTest | AdaptiveTest:
    try:
        test = tuned.chosen(source).test
    except CapacityError as failure:
        raise PlanError(f"tests.{name}.capacity, for '{configuration.label}': {failure}") from failure
    by_part: dict[tuple[int, ...], list[int]] = {}
    for scale in _scales(test):
        by_part.setdefault(scale.seen, []).append(scale.n_ridged)
    for seen, bumps in by_part.items():
        wanted = tuned.bumps if isinstance(tuned, TunedConvex) else sum(tuned.bumps[: len(bumps)])
        if sum(bumps) < wanted:
            log.warning(
                "tests.%s.bumps, for '%s': the events that choose the basis have only %d different "
                "points%s, so the test has %d bumps instead of %d, and less capacity",
                name,
                configuration.label,
                len(np.unique(source.basis_events()[:, seen], axis=0)),
                _part_told(tuned, seen),
                sum(bumps),
                wanted,
            )
    return test


def _scales(test: ConvexTest | AdaptiveTest) -> tuple[GaussianBasis, ...]:
    if isinstance(test, AdaptiveTest):
        return test.members.scales
    return (test.basis,) if isinstance(test.basis, GaussianBasis) else ()


def _part_told(tuned: TunedConvex | TunedAdaptive, seen: tuple[int, ...]) -> str:
    """Return which part of z has these dimensions; nothing where z has no parts."""
    n_dimensions = sum(number for _, number in tuned.parts)
    parts = dimensions_of(tuned.parts, n_dimensions) if tuned.parts else {}
    return "".join(f" in {part}" for part, dimensions in parts.items() if dimensions == seen)


def tune_clips(products: Products, sources: Sources, backend: Backend) -> None:
    """Find W of the network where the study does not give it and it is not known yet."""
    study = products.study
    for configuration in clips_to_tune(study, fixed_clips(study)):
        source = sources[space(configuration)]
        product = products.clip(configuration, source)
        if not product.make_room():
            continue
        log.info("stage tune: searching the clip W of the network, %s, with toys", configuration.label)
        choice = _search_clip(study, configuration, source, products.directory, backend)
        choice = replace(choice, clip=round(choice.clip, CLIP_DIGITS))
        what = f"clip of the network, {configuration.label}"
        log.info("stage tune: %s: W = %g +- %.2g", what, choice.clip, choice.clip_error)
        write_record(product.path, choice)
        product.note()


def _search_clip(
    study: Study, configuration: Configuration, source: Source, directory: RunDirectory, backend: Backend
) -> ClipChoice:
    """Search with toys of a stream of their own, which are stored: a search that was killed goes on."""
    from covad.inference.clip import choose_clip  # scipy.stats takes its time, and only this needs it

    where = f"tests.network.clip, for '{configuration.label}'"
    draw = null_draw(study, configuration)

    def toys(clip: float, indices: NDArray[np.intp]) -> Float64:
        network = tuned_network(study, source, clip)
        request = Request(
            Ensemble(draw, network, source, study.seed, Stream.SCAN), toys=int(indices.max()) + 1
        )
        run_toys([request], directory.toys, backend)
        found = directory.toys.load(request)
        if not found.done:
            raise PlanError(
                f"{where}: all toys of the search failed: {found.toys[0].reason}; set it to a number"
            )
        return found.t_by_index()[indices]

    try:
        dof = round(tuned_network(study, source, 1.0).capacity)
        return choose_clip(toys, dof, seed=study.seed)
    except InferenceError as failure:
        raise PlanError(f"{where}: {failure}; set it to a number") from failure
