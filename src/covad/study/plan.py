"""The plan: which ensembles a study asks for, and what they still wait for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.convex.capacity import default_capacity
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.settings import Parts
from covad.settings import Nu
from covad.study import TESTS, Collisions, Configuration, Sizes, Study
from covad.study.spaces import JoinedSpace
from covad.study.systematics import NORMALISATION
from covad.toys.drawing import largest_number
from covad.toys.ensembles import Draw, Ensemble, Request, Source, Stream, Treatment, TunedTest
from covad.toys.tests import ChosenTest, TunedAdaptive, TunedConvex, TunedNetwork

#: The tests that know the law of t without toys.
_HAVE_LAW = (TunedNetwork.has_law, TunedConvex.has_law, TunedAdaptive.has_law)
LAWFUL = tuple(name for name, known in zip(TESTS, _HAVE_LAW, strict=True) if known)
#: Sigma up to which signals are drawn.
_NEAR = 1.0
#: Points of the prior at which pools are embedded: no fewer, and for each nuisance so many at least, so that
#: toys can tell what t does with each of them and with its square.
_PRIOR_POINTS, _POINTS_PER_NUISANCE = 64, 4
#: Sigma along the worst direction at which toys are drawn, on both sides.
WORST_SIGMAS = 2.0
#: (name of a space of the source, order of the response).
Space = tuple[str, int]
#: Where toys are drawn from, as far as it is there.
Sources = Mapping[Space, Source]
#: W of the network by the slug of the configuration, as far as it is known.
Clips = Mapping[str, float]
#: Tests with their bumps by name and by the slug of the configuration, as far as they are chosen.
Bases = Mapping[tuple[str, str], ConvexTest | AdaptiveTest]
#: The points along the worst direction by space, the positive side first, as far as they are known.
WorstPoints = Mapping[Space, Sequence[Nu]]


@dataclass(frozen=True)
class Entry:
    """One line of the plan; the ensemble is None while its pools, clip or basis are missing."""

    test: str
    configuration: Configuration
    draw: Draw
    toys: int
    ensemble: Ensemble | None
    along_worst: float = 0.0  # sigma of its nu along the worst direction, 0 if it does not lie there for that


def plan(
    study: Study,
    sources: Sources,
    clips: Clips,
    bases: Bases | None = None,
    worst: WorstPoints | None = None,
) -> list[Entry]:
    """Return all ensembles of the study; those along the worst direction as far as `worst` knows it.

    Toys of tests on bumps are drawn and judged with these, but counted by an identity that does not hold
    them: without `bases` their ensembles are there all the same.
    """
    entries = []
    for configuration in study.configurations:
        source, slug = sources.get(space(configuration)), configuration.slug
        tests: dict[str, TunedTest | None] = {}
        if "network" in study.tests_of(configuration):
            clip = clips.get(slug)
            tests["network"] = tuned_network(study, source, clip) if source and clip else None
        for name, tuned in tuned_on_bumps(study, configuration).items():
            chosen = None if bases is None else bases.get((name, slug))
            tests[name] = tuned
            if bases is not None:
                tests[name] = None if chosen is None else ChosenTest(tuned, chosen)
        found = [(0.0, draw) for draw in draws(study, configuration)]
        found += worst_draws(study, configuration, worst or {})
        for along, draw in found:
            toys = configuration.toys or study.toys
            if draw.signal is None:
                toys = configuration.background_toys or toys
            if draw.nu_norm or draw.prior:
                toys = configuration.yield_toys or toys
            for name, test in tests.items():
                ensemble = None
                if source is not None and test is not None:
                    ensemble = Ensemble(draw, test, source, study.seed, Stream.TOYS)
                entries.append(Entry(name, configuration, draw, toys, ensemble, along))
    return entries


def background_first(entries: list[Entry]) -> list[Entry]:
    """Return the entries in the order of computation: closure is known before sensitivity."""
    return sorted(entries, key=lambda entry: entry.draw.signal is not None)


def requests(entries: list[Entry]) -> list[Request]:
    """Return the toys that can be run now."""
    return [Request(entry.ensemble, entry.toys) for entry in entries if entry.ensemble is not None]


def draws(study: Study, configuration: Configuration) -> Iterator[Draw]:
    """Draw background at every nu, nu_norm and from the prior, and signals on top of it at some nu.

    Signals are drawn where no |nu| exceeds 1. Without nuisances in the test the background alone alarms where
    nu is not 0: signals are drawn at nu = 0 only, and the normalisation is not varied.
    """
    null = null_draw(study, configuration)
    points = configuration.nu or study.nu
    near = [nu for nu in points if max(map(abs, nu)) <= _NEAR]
    profiled = configuration.treatment is Treatment.PROFILED
    for nu in points:
        yield replace(null, nu=nu)
    if profiled and study.normalisation is not None:
        for nu_norm in study.nu_norm:
            yield replace(null, nu_norm=nu_norm)
    if profiled and study.prior:
        yield replace(null, prior=True)
    if not configuration.signals:
        return
    for nu in near if profiled else [null.nu]:
        for signal, yields in study.signals.items():
            for injected in yields:
                yield replace(null, nu=nu, signal=signal, injected=injected)


def worst_draws(
    study: Study, configuration: Configuration, worst: WorstPoints
) -> Iterator[tuple[float, Draw]]:
    """Draw background along the worst direction of the response, and say how many sigma along it.

    A point at which toys are drawn anyway is left out, and so is all if the test knows no nuisances.
    """
    if not study.worst_direction or configuration.treatment is not Treatment.PROFILED:
        return
    known = configuration.nu or study.nu
    for nu, along in zip(worst.get(space(configuration), ()), (WORST_SIGMAS, -WORST_SIGMAS), strict=False):
        if nu not in known:
            yield along, replace(null_draw(study, configuration), nu=nu)


def n_prior_points(study: Study) -> int:
    """Return at how many truths of the prior toys can be drawn from pools, a power of two; 0 if none are."""
    if not study.prior or all(c.treatment is not Treatment.PROFILED for c in study.configurations):
        return 0
    return max(_PRIOR_POINTS, 1 << math.ceil(math.log2(max(_POINTS_PER_NUISANCE * len(study.nu[0]), 1))))


def prior_events(study: Study) -> int:
    """Return the selected events that a pool at a point of the prior should have: a power of two, or 0.

    It has to serve the toy of the largest yield; what nu adds to that is allowed for by half as much again.
    """
    if not n_prior_points(study):
        return 0
    draws = (null_draw(study, c) for c in study.configurations if c.treatment is Treatment.PROFILED)
    largest = max(largest_number(replace(draw, prior=True).largest.expected_background) for draw in draws)
    return 1 << math.ceil(math.log2(1.5 * largest))


def signal_points(study: Study) -> tuple[Nu, ...]:
    """Return all nu at which signals are drawn, 0 first."""
    drawn = (draw.nu for c in study.configurations for draw in draws(study, c) if draw.signal is not None)
    return tuple(dict.fromkeys([null_draw(study, study.configurations[0]).nu, *drawn]))


def null_draw(study: Study, configuration: Configuration) -> Draw:
    """Return R_0: background at the central nuisances."""
    sizes = sizes_of(study, configuration)
    return Draw(
        space=configuration.space or "",
        treatment=configuration.treatment,
        expected=sizes.expected,
        n_reference=sizes.reference,
        nu=tuple(0.0 for _ in study.nu[0]),
        response_order=configuration.order,
        normalisation_sigma=study.normalisation,
        correlation=study.source.correlation if configuration.treatment is Treatment.PROFILED else None,
    )


def default_test(study: Study) -> str:
    """Return the test that is meant if none is named: that of the result; of two, the convex one."""
    return "convex" if study.rule == "joint" else study.rule


def nuisance_names(study: Study) -> tuple[str, ...]:
    """Return what the nuisances are called, in the order of the fits: the shapes, then the normalisation."""
    return (*shape_names(study), *([] if study.normalisation is None else [NORMALISATION]))


def shape_names(study: Study) -> tuple[str, ...]:
    """Return what the nuisances in nu are called: nu_1, nu_2, ... where the source does not name them."""
    if isinstance(study.source, Collisions):
        return study.source.nuisances
    return tuple(f"nu_{k + 1}" for k in range(len(study.nu[0])))


def space(configuration: Configuration) -> Space:
    return configuration.space or "", configuration.order


def space_label(space: Space) -> str:
    """Return what people call a space: 'covariant, linear'."""
    name, order = space
    return f"{name}, {'linear' if order == 1 else 'quadratic'}"


def sizes_of(study: Study, configuration: Configuration) -> Sizes:
    return configuration.sizes or study.sizes


def tuned_network(study: Study, source: Source, clip: float) -> TunedNetwork:
    """Return the network test of the study at a given W."""
    if study.tests.network is None:
        raise ValueError("the study has no network test")
    return TunedNetwork(**(dict(study.tests.network) | {"clip": clip, "dimensions": source.n_dimensions}))


def tuned_convex(study: Study, sizes: Sizes) -> TunedConvex | None:
    """Return the convex test of the study for datasets of these sizes, None if the study has none."""
    if study.tests.convex is None:
        return None
    given = {key: value for key, value in study.tests.convex if value is not None}
    return TunedConvex(**given, **dict(sizes))


def one_per_space(study: Study) -> dict[Space, Configuration]:
    """Return for every space the main configuration, or the first that profiles, or the first."""
    main = main_configuration(study)
    ordered = sorted(study.configurations, key=lambda c: (c != main, c.treatment is not Treatment.PROFILED))
    chosen: dict[Space, Configuration] = {}
    for configuration in ordered:
        chosen.setdefault(space(configuration), configuration)
    return {where: chosen[where] for where in study.spaces}


def tuned_adaptive(study: Study, sizes: Sizes, space_name: str) -> TunedAdaptive | None:
    """Return the adaptive test of the study for datasets of these sizes, None if the study has none."""
    if study.tests.adaptive is None:
        return None
    return TunedAdaptive(**dict(study.tests.adaptive), **dict(sizes), parts=parts_of(study, space_name))


def parts_of(study: Study, space_name: str) -> Parts:
    """Return the parts of a joined space, which the adaptive test looks at one by one; none of another."""
    if not isinstance(study.source, Collisions):
        return ()
    source, joined = study.source, study.source.spaces[space_name]
    if not isinstance(joined, JoinedSpace):
        return ()
    return tuple((part, source.n_dimensions(part)) for part in joined.of)


def tuned_on_bumps(study: Study, configuration: Configuration) -> dict[str, TunedConvex | TunedAdaptive]:
    """Return the tests of a configuration whose bumps are chosen once for a run, by their names."""
    sizes, tests = sizes_of(study, configuration), study.tests_of(configuration)
    adaptive = tuned_adaptive(study, sizes, configuration.space or "")
    tuned = {"convex": tuned_convex(study, sizes), "adaptive": adaptive}
    return {name: test for name, test in tuned.items() if test is not None and name in tests}


def reach_convex(study: Study, space_name: str, expected: float | None = None) -> TunedConvex:
    """Return the convex test that the closure reach is measured with: the study's, or a default one.

    Of the adaptive test it is its widest scale: what a response leaves is smooth, and no member has less
    spread of t to hold it against. In a joined space these are the widest scales of all parts, side by side.

    It is tuned for so many `expected` events, those of the study unless told, beside a reference that is as
    many times larger as the study's.
    """
    sizes = study.sizes
    if expected is not None:
        reference = max(round(expected * sizes.reference / sizes.expected), 1)
        sizes = Sizes(expected=expected, reference=reference)
    if (adaptive := study.tests.adaptive) is not None:
        return TunedConvex(
            bumps=adaptive.bumps[0],
            capacity=min(adaptive.capacities[0], default_capacity(adaptive.bumps[0], sizes.expected)),
            seed=adaptive.seed,
            expected=sizes.expected,
            reference=sizes.reference,
            parts=parts_of(study, space_name),
        )
    return tuned_convex(study, sizes) or TunedConvex(**dict(sizes))


def reach_test(study: Study) -> str:
    """Name the test of `reach_convex`."""
    return "convex test" if study.tests.adaptive is None else "widest scale of the adaptive test"


def fixed_clips(study: Study) -> dict[str, float]:
    """Return the clips that the study file itself gives."""
    network = study.tests.network
    if network is None or network.clip == "tune":
        return {}
    return {c.slug: network.clip for c in study.configurations if "network" in study.tests_of(c)}


def clips_to_tune(study: Study, known: Clips) -> list[Configuration]:
    """Return configurations without a W: it depends on the space, the sizes and the treatment."""
    return [c for c in study.configurations if "network" in study.tests_of(c) and c.slug not in known]


def bases_to_choose(study: Study, known: Bases) -> list[tuple[str, Configuration]]:
    """Return tests and configurations without bumps yet: these depend on the space and the sizes."""
    return [(test, c) for test, c in tests_on_bumps(study) if (test, c.slug) not in known]


def tests_on_bumps(study: Study) -> list[tuple[str, Configuration]]:
    """Return every test whose bumps are chosen once for a run, with each of its configurations."""
    on_bumps = [(test, c) for c in study.configurations for test in tuned_on_bumps(study, c)]
    return sorted(on_bumps, key=lambda pair: TESTS.index(pair[0]))


def main_configuration(study: Study) -> Configuration:
    """Return the one that speaks for the study: in the report's summary, and for observed files unless told.

    The one that the study names as `main`, else the paper's proposal if it is there (covariant embedding,
    nuisances profiled, linear response, of the study's own sizes), else the first that profiles the
    nuisances, else the first.
    """
    if study.main is not None:
        return study.configuration(study.main)
    profiled = [c for c in study.configurations if c.treatment is Treatment.PROFILED]
    if isinstance(study.source, Collisions):
        alphas = {name: entry.alpha for name, entry in study.source.learned.items()}
        for c in profiled:
            if alphas.get(c.space or "", 0.0) > 0 and c.order == 1 and sizes_of(study, c) == study.sizes:
                return c
    return (profiled or list(study.configurations))[0]
