"""What the stages of a run make, each with its recipe: the settings, events and products that it depends on.

Recipes come from the study, events.json and the notes of other products. No event file is opened for them, so
that they are known wherever the run directory is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from covad.errors import FileFormatError
from covad.events.changes import CHANGES_VERSION
from covad.events.observables import OBSERVABLES_VERSION
from covad.events.processes import BACKGROUND
from covad.runs.directory import RunDirectory, space_name
from covad.settings import Nu
from covad.storage.digests import content_digest
from covad.storage.ledger import Product, Recipe
from covad.study import Collisions, Configuration, SampleEntry, Study
from covad.study.plan import (
    WORST_SIGMAS,
    Sources,
    Space,
    clips_to_tune,
    fixed_clips,
    n_prior_points,
    null_draw,
    prior_events,
    reach_convex,
    signal_points,
    space,
    tests_on_bumps,
    tuned_on_bumps,
)
from covad.study.spaces import JoinedSpace, LearnedSpace, ObservablesSpace
from covad.toys.ensembles import Source, draw_recipe

if TYPE_CHECKING:
    from covad.inference.ranking import PriorClosure

#: By stage. Raise that of a stage when it computes another thing from the same settings, or when a default of
#: a setting of its recipes changes: recipes hold what differs from the defaults, so that a setting that covad
#: gets later ends no run. What is made from its products is made anew by itself.
RECIPES = {"events": 1, "spaces": 1, "response": 2, "pools": 2, "checks": 3, "tune": 3}
#: From events to the spaces that toys are drawn in; only for studies that start from collisions.
LEARNING_STAGES = ("events", "spaces", "response", "checks", "pools")


@dataclass(frozen=True)
class Products:
    """The products of a study in its run directory."""

    study: Study
    directory: RunDirectory

    @property
    def models(self) -> list[tuple[str, int]]:
        """Return (name, fold) of all spaces, joined ones after those that they join."""
        source = self._collisions
        ordered = sorted(source.spaces, key=lambda name: isinstance(source.spaces[name], JoinedSpace))
        return [(name, fold) for name in ordered for fold in range(source.folds)]

    def of_stage(self, stage: str, sources: Sources) -> list[Product]:
        """Return what is used of all that a stage makes; nothing of a learning stage that the study lacks.

        `sources` are what toys are drawn from, as far as it is there: the products of `tune` depend on it.
        """
        study = self.study
        if stage == "tune":
            return [
                *(self.basis(c, sources.get(space(c)), test) for test, c in tests_on_bumps(study)),
                *(self.clip(c, sources.get(space(c))) for c in clips_to_tune(study, fixed_clips(study))),
            ]
        if not isinstance(study.source, Collisions):
            return []
        spaces, folds = study.spaces, range(study.source.folds)
        tables = [self.yields()] if self.has_yields else []
        if study.source.separate_samples:
            tables.append(self.separate())
        samples = (BACKGROUND, *study.signals, *study.source.separate_samples)
        made: dict[str, Iterable[Product]] = {
            "events": [*tables, *(self.fingerprints(sample) for sample in samples)],
            "spaces": (self.space(*model) for model in self.models),
            "response": (self.response(name, fold, order) for name, order in spaces for fold in folds),
            "pools": (self.pools(where) for where in spaces),
            "checks": (self.checks(where, fold) for where in spaces for fold in folds),
        }
        return list(made[stage])

    def events(self, file: str, sample: str, entry: SampleEntry, n_events: int, seed: int) -> Product:
        """Return a file of simulated events."""
        settings: dict[str, Any] = {"engine": entry.engine, "lepton_filter": entry.lepton_filter}
        if entry.variant is not None:
            settings["variant"] = entry.variant
        return self._product("events", file, {"process": sample, "n": n_events, "seed": seed, **settings})

    def fingerprints(self, sample: str) -> Product:
        """Return two fingerprints per event of a sample, simulated or not."""
        events = self._events_digest(sample)
        cuts = self._collisions.cuts.model_dump(mode="json", exclude_defaults=True)
        recipe = None if events is None else {"events": events, "cuts": cuts}
        return self._product("events", f"events/fingerprints/{sample}.npy", recipe)

    @property
    def has_yields(self) -> bool:
        """Return whether there is a table of yields: the study or the background files say what counts."""
        notes = (self.directory.read("events.json") or {}).get(BACKGROUND, [])
        return bool(self._collisions.background.processes) or any(note.get("weighted") for note in notes)

    def yields(self) -> Product:
        """Return what is expected of every background process after the cuts."""
        events = self._events_digest(BACKGROUND)
        cuts = self._collisions.cuts.model_dump(mode="json", exclude_defaults=True)
        recipe = None if events is None else {"events": events, "cuts": cuts, **self._expectation}
        return self._product("events", "yields.json", recipe)

    def separate(self) -> Product:
        """Return what the events of separate samples count in the place of those of their process."""
        return self._product("events", "separate.json", self._of_background(part="separate"))

    def selected(self) -> Product:
        """Return how many events of every role pass the cuts."""
        source = self._collisions
        return self._product(
            "events",
            "selected.json",
            self._of_background(
                signals={name: self._events_digest(name) or "" for name in self.study.signals},
                nu=self.study.points,
                folds=source.folds,
                validation_share=source.training.validation_share,
                processes="selected",
            ),
        )

    def space(self, name: str, fold: int) -> Product:
        """Return the map from events to z: an encoder, or a small file that says which observables."""
        entry = self._collisions.spaces[name]
        file = f"models/{name}/fold_{fold}/space.safetensors"
        match entry:
            case LearnedSpace():
                return self._encoder(name, entry, fold)
            case ObservablesSpace():
                told = entry.model_dump(mode="json", exclude_defaults=True)
                recipe = self._of_background(space=told, version=OBSERVABLES_VERSION)
                return self._product("spaces", file, recipe)
        digests = [self.space(part, fold).digest for part in entry.of]
        joined = None if None in digests else dict(zip(entry.of, digests, strict=True))
        # digests forget the order of keys; sorted ones are left out, as in runs that never had it
        order = {} if list(entry.of) == sorted(entry.of) else {"order": list(entry.of)}
        return self._product("spaces", file, self._of_background(joined=joined, **order))

    def _encoder(self, name: str, entry: LearnedSpace, fold: int) -> Product:
        source = self._collisions
        encoder, training = entry.encoder_of(source.encoder), source.training
        own = entry.model_dump(
            mode="json", exclude_defaults=True, exclude={"kind", "alpha", "outputs", "encoder"}
        )
        if "observables" in entry.kept:
            own["version"] = OBSERVABLES_VERSION
        if "changes" in entry.kept:
            own["changes"] = {"version": CHANGES_VERSION, "names": training.changes}
        return self._product(
            "spaces",
            f"models/{name}/fold_{fold}/encoder.safetensors",
            self._of_background(
                alpha=entry.alpha,
                encoder=encoder.model_dump(mode="json", exclude_defaults=True),
                training=training.model_dump(
                    mode="json", exclude_defaults=True, exclude={"device", "changes"}
                ),
                folds=source.folds,
                fold=fold,
                **self._many,
                **({"own": own} if own else {}),
            ),
        )

    def response(self, name: str, fold: int, order: int) -> Product:
        return self._product(
            "response",
            f"models/{name}/fold_{fold}/response_{order}.safetensors",
            self._of_background(
                encoder=self.space(name, fold).digest,
                response=self._collisions.response.fit.model_dump(mode="json", exclude_defaults=True),
                fold=fold,
                order=order,
                **self._many,
            ),
        )

    def embedded_digest(self, name: str, fold: int, role: str) -> str:
        """Return what the embedded events of a role depend on, as a digest: they are a cache."""
        recipe = self._of_background(encoder=self.space(name, fold).digest, role=role)
        if recipe is None:
            raise ValueError(f"the space '{name}' of fold {fold} is not there")
        return content_digest(recipe)

    def pools(self, space: Space) -> Product:
        """Return the pools of a space with their standardisation: all files of a folder."""
        name, order = space
        fold = self._collisions.fold
        return self._product(
            "pools",
            f"pools/{space_name(space)}",
            self._of_background(
                encoder=self.space(name, fold).digest,
                response=self.response(name, fold, order).digest,
                nu=self.data_points(space),
                prior=[n_prior_points(self.study), prior_events(self.study)],
                signal_nu=signal_points(self.study),
                signals={name: self._events_digest(name) or "" for name in self.study.signals},
                **({} if not n_prior_points(self.study) else self._correlated),
                **self._smoothed_for(space),
                **({"pruned": self.pruned(space)} if self._collisions.response.prune else {}),
            ),
        )

    def data_points(self, space: Space) -> tuple[Nu, ...] | None:
        """Return all nu at which pools of a space are embedded; None while its worst direction is unknown."""
        worst = self.worst_points(space)
        return None if worst is None else tuple(dict.fromkeys([*self.study.points, *worst]))

    def worst_points(self, space: Space) -> tuple[Nu, ...] | None:
        """Return the points along the worst direction, none if the study does not ask for them.

        None before the stage `checks` has found the direction.
        """
        if not self.study.worst_direction:
            return ()
        found = self.ranking(space)
        return None if found is None else found.worst_points(WORST_SIGMAS)

    def pruned(self, space: Space) -> tuple[str, ...] | None:
        """Return the nuisances that tests leave out, by name; none if the study does not ask for it.

        None before the stage `checks` has found which matter.
        """
        if not self._collisions.response.prune:
            return ()
        found = self.ranking(space)
        return None if found is None else found.pruned_names

    def ranking(self, space: Space) -> PriorClosure | None:
        """Return which nuisances matter, by the checks of the fold that toys use; None before these.

        Raise FileFormatError if an older version made them, which did not tell all.
        """
        from covad.runs.checks import read_ranking  # scipy takes its time, and few studies need it

        product = self.checks(space, self._collisions.fold)
        found = read_ranking(product)
        if product.made and (found is None or not found.names):
            raise FileFormatError(
                f"{product.path}: an older version of covad made it, which did not rank nuisances by name: "
                "delete it and run again"
            )
        return found

    @property
    def worst(self) -> dict[Space, tuple[Nu, ...]]:
        """Return the points along the worst direction by space, as far as they are known."""
        if not self.study.worst_direction:
            return {}
        found = {where: self.worst_points(where) for where in self.study.spaces}
        return {where: points for where, points in found.items() if points is not None}

    def _smoothed_for(self, where: Space) -> dict[str, Any]:
        """Return the tests whose sums are kept by smoothed weights; nothing for events without weights.

        Separate samples may be subtracted, and then need smoothing too.
        """
        notes = self.directory.read("events.json") or {}
        weighted = any(note.get("weighted") for sample in notes.values() for note in sample)
        if not weighted and not self._collisions.separate_samples:
            return {}
        study = self.study
        mine = [c for c in study.configurations if space(c) == where]
        on_bumps = dict.fromkeys(test for c in mine for test in tuned_on_bumps(study, c).values())
        described = [test.describe() for test in (reach_convex(study, where[0]), *on_bumps)]
        network = any("network" in study.tests_of(c) for c in mine)
        return {"smoothed_for": [*described, {"network": network}]}

    def checks(self, space: Space, fold: int) -> Product:
        name, order = space
        folder = "checks" if fold == self._collisions.fold else f"checks/fold_{fold}"
        convex = reach_convex(self.study, name)
        return self._product(
            "checks",
            f"{folder}/{space_name(space)}.json",
            self._of_background(
                encoder=self.space(name, fold).digest,
                response=self.response(name, fold, order).digest,
                convex=convex.describe(),
                normalisation=self.study.normalisation or 0.0,
                **self._correlated,
            ),
        )

    def basis(self, configuration: Configuration, source: Source | None, test: str = "convex") -> Product:
        """Return bumps and ridges of a test; `source` is None while its pools are missing."""
        tuned = tuned_on_bumps(self.study, configuration).get(test)
        recipe = None
        if source is not None and tuned is not None:
            events = source.digest_of(null_draw(self.study, configuration))
            recipe = {"events": events, test: tuned.describe()}
        folder = {"convex": "basis", "adaptive": "members"}[test]
        return self._product("tune", f"{folder}/{configuration.slug}.json", recipe)

    def clip(self, configuration: Configuration, source: Source | None) -> Product:
        """Return W of the network with the scan that led to it."""
        recipe, network = None, self.study.tests.network
        if source is not None and network is not None and "network" in self.study.tests_of(configuration):
            draw = null_draw(self.study, configuration)
            recipe = {
                "events": source.digest_of(draw),
                "seed": self.study.seed,
                "draw": draw_recipe(draw),
                "network": network.model_dump(mode="json", exclude_defaults=True),
            }
        return self._product("tune", f"clip/{configuration.slug}.json", recipe)

    def _product(self, stage: str, name: str, recipe: Recipe | None) -> Product:
        full = None if recipe is None else {"recipes": RECIPES[stage], **recipe}
        return Product(self.directory.path, stage, name, full)

    @property
    def _collisions(self) -> Collisions:
        if not isinstance(self.study.source, Collisions):
            raise TypeError("this study does not start from collisions")
        return self.study.source

    def _of_background(self, **parts: Any) -> Recipe | None:
        """Return these parts with what everything learned depends on; None if one of them is missing."""
        common = self._common
        return None if common is None or None in parts.values() else common | parts

    @property
    def _many(self) -> dict[str, Any]:
        """Return what more than two nuisances are learned by: no pairs of them, two in L_cov."""
        return {"pairs": "asked"} if len(self._collisions.systematics) > 2 else {}

    @property
    def _correlated(self) -> dict[str, Any]:
        """Return the correlations of the nuisances; nothing if they are independent."""
        matrix = self._collisions.correlation
        return {} if matrix is None else {"correlation": matrix}

    @cached_property
    def _common(self) -> dict[str, Any] | None:
        """Return the background events, their splits and shifts; None before the stage `events`."""
        source = self._collisions
        events = self._events_digest(BACKGROUND)
        if events is None:
            return None
        return {
            "seed": self.study.seed,
            "events": events,
            "splits": source.splits.model_dump(mode="json", exclude_defaults=True),
            "systematics": [entry.description for entry in source.systematics],
            "systematics_code": (self.directory.origin() or {}).get("source_digest"),
            "cuts": source.cuts.model_dump(mode="json", exclude_defaults=True),
            **self._expectation,
            **self._separate_digests,
        }

    @property
    def _separate_digests(self) -> dict[str, Any]:
        """Return the events of separate samples; nothing if no systematic has any."""
        names = self._collisions.separate_samples
        return {"separate": {name: self._events_digest(name) or "" for name in names}} if names else {}

    @property
    def _expectation(self) -> dict[str, Any]:
        """Return what the study says on the yields of the processes; nothing if it says nothing."""
        entries = self._collisions.background.processes
        if not entries:
            return {}
        told = {name: entry.model_dump(mode="json", exclude_defaults=True) for name, entry in entries.items()}
        luminosity = self._collisions.luminosity
        return {"background": {"processes": told}} | (
            {} if luminosity is None else {"luminosity": luminosity}
        )

    def _events_digest(self, sample: str) -> str | None:
        notes = (self.directory.read("events.json") or {}).get(sample)
        if notes is None:
            return None
        labels = [note["labels"]["sha256"] for note in notes if "labels" in note]
        return content_digest([*(note["sha256"] for note in notes), *labels])
