"""Where the events of a study come from: the latent world, pools of embedded events, or collisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from covad.embedding.settings import EncoderSettings, Training
from covad.events.processes import BACKGROUND_MIX
from covad.events.selection import Selection
from covad.response.settings import ResponseSettings
from covad.settings import Count, Index, Matrix, Name, Positive, Settings, Size, Whole
from covad.study.samples import SampleEntry
from covad.study.spaces import JoinedSpace, LearnedSpace, ObservablesSpace, SpaceEntry, check_spaces
from covad.study.systematics import (
    Correlations,
    ShiftEntry,
    SystematicEntry,
    check_entries,
    correlation_matrix,
    nuisance_names,
)
from covad.toys.latent_world import MOST_NUISANCES

#: Names of samples, splits and pools that are no signals.
_RESERVED = {"background", "encoder", "response", "check", "basis", "reference", "data"}


class LatentSection(Settings):
    """The analytic latent world: fresh events for every toy, `nuisances` of them with an exact response."""

    kind: Literal["latent"]
    nuisances: Annotated[Whole, Field(ge=1, le=MOST_NUISANCES)] = 1
    #: Of the auxiliary measurements of the nuisances, which are called nu_1, nu_2 and so on.
    correlations: Correlations = ()

    @model_validator(mode="after")
    def _correlated(self) -> Self:
        correlation_matrix(self._names, self.correlations)
        return self

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"nu_{k + 1}" for k in range(self.nuisances))

    @property
    def correlation(self) -> Matrix | None:
        """Return the correlation matrix of the auxiliary measurements, None if they are independent."""
        return correlation_matrix(self._names, self.correlations)

    @property
    def spaces_named(self) -> tuple[str, ...]:
        return ("latent",)

    @property
    def n_nuisances(self) -> int | None:
        return self.nuisances


class PoolSection(Settings):
    """Pools of embedded events that were written before; `space` names the space they live in."""

    kind: Literal["pools"]
    path: Path
    space: Name

    @property
    def spaces_named(self) -> tuple[str, ...]:
        return (self.space,)

    @property
    def n_nuisances(self) -> int | None:
        """None: only the files know."""
        return None

    @property
    def correlation(self) -> Matrix | None:
        """None: auxiliary measurements of pools are independent."""
        return None


class ProcessEntry(Settings):
    """What is expected of one process: a cross section in pb, or a yield after the cuts at nu = 0.

    `sum_of_weights` is that of all generated events, before any selection; left out, the files have it.
    Processes of one `label` are trained as one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    cross_section: Positive | None = None
    sum_of_weights: Positive | None = None
    #: The key is `yield`, which no attribute can be called.
    expected: Positive | None = Field(default=None, alias="yield")
    label: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.cross_section is None) == (self.expected is None):
            raise ValueError("either cross_section or yield is needed: give one of them")
        if self.sum_of_weights is not None and self.cross_section is None:
            raise ValueError("sum_of_weights does nothing beside yield: leave it out")
        return self


class BackgroundEntry(SampleEntry):
    """The background: its events, and what is expected of its processes; of all of them, or of none."""

    processes: dict[Annotated[str, Field(min_length=1)], ProcessEntry] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _simulated(self) -> Self:
        if self.simulate is None or not self.processes:
            return self
        if set(self.processes) != set(BACKGROUND_MIX):
            raise ValueError(f"processes: simulated background has {', '.join(BACKGROUND_MIX)}: name them")
        for name, process in self.processes.items():
            if process.expected is None:
                raise ValueError(
                    f"processes.{name}: simulated events have no sum of generator weights: give the yield"
                )
        return self


class Splits(Settings):
    """Background events per role; no event has two. What is trained on is never tested.

    `encoder` events train encoders: none are needed where no space is learned. `check` events judge the
    response (validation, closure reach), `basis` events choose the bumps of the convex test.
    """

    encoder: Annotated[Index, Field(le=10**10)] = 1_000_000
    response: Count = 1_000_000
    check: Count = 500_000
    basis: Count = 50_000
    reference: Count = 1_500_000
    data: Count = 1_500_000

    @property
    def total(self) -> int:
        return sum(self.model_dump().values())


class Collisions(Settings):
    """Measured or simulated events, their systematics, and the spaces that both are embedded in.

    With `folds` = k, k encoders are trained, each without one k-th of its split; toys use encoder `fold`.
    """

    kind: Literal["events"]
    #: In 1/pb, for the cross sections of the processes.
    luminosity: Positive | None = None
    background: BackgroundEntry
    signals: dict[Name, SampleEntry] = Field(default_factory=dict)
    systematics: Annotated[tuple[SystematicEntry, ...], Field(min_length=1)] = (
        ShiftEntry(name="jet_energy_scale"),
    )
    #: Of the auxiliary measurements of the nuisances; those of which nothing is said are independent.
    correlations: Correlations = ()
    cuts: Selection = Selection()
    splits: Splits = Splits()
    #: Of coarse features, whose events can be alike by chance: what is alike is counted, and not refused.
    duplicates: Literal["refused", "allowed"] = "refused"
    spaces: Annotated[dict[Name, SpaceEntry], Field(min_length=1)]
    encoder: EncoderSettings = EncoderSettings()
    training: Training = Training()
    response: ResponseSettings = ResponseSettings()
    folds: Size = 1
    fold: Index = 0
    #: Directory of the study file, where modules of the user's functions are looked for.
    folder: Path | None = None

    @model_validator(mode="after")
    def _nothing_to_learn(self) -> Self:
        """Set no events aside for encoders where there is none to train."""
        if not self.learned and "encoder" not in self.splits.model_fields_set:
            object.__setattr__(self, "splits", self.splits.changed(encoder=0))
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.fold >= self.folds:
            raise ValueError(f"fold: there are {self.folds} folds, numbered from 0")
        check_spaces(self.spaces)
        if self.folds > 1 and not self.learned:
            raise ValueError("folds: no space is learned, so that there is nothing to fold: leave it out")
        for name in _RESERVED & set(self.signals):
            raise ValueError(f"signals.{name}: the name is taken, choose another one")
        check_entries(self.systematics)
        correlation_matrix(self.nuisances, self.correlations)
        for name in set(self.signals) & set(self.separate_samples):
            raise ValueError(f"signals.{name}: a sample of source.systematics is called so: rename it")
        for name in self.training.covariance or ():
            if name not in self.nuisances:
                raise ValueError(f"training.covariance: no systematic is named {name}")
        if self.training.changes and not any("changes" in entry.kept for entry in self.learned.values()):
            raise ValueError(
                "training.changes: no space keeps changes, so that it does nothing: leave it out"
            )
        for pair in self.response.cross or ():
            for name in pair:
                if name not in self.nuisances:
                    raise ValueError(f"response.cross: no systematic is named {name}")
                if any(entry.one_sided for entry in self.systematics if entry.name == name):
                    raise ValueError(
                        f"response.cross: {name} does not exist at both +1 and -1, where the mixed term is "
                        "learned: take it out"
                    )
            if pair[0] == pair[1]:
                raise ValueError(f"response.cross: {pair[0]} has its own square without being asked for")
        if self.learned:
            self._check_batch()
        simulated, total = self.background.simulate, self.splits.total
        if simulated is not None and simulated < total:
            raise ValueError(
                f"background.simulate: {simulated} events are fewer than the {total} of the splits"
            )
        known = [name for name, entry in self.background.processes.items() if entry.cross_section is not None]
        if known and self.luminosity is None:
            raise ValueError(
                f"luminosity: the cross section of {known[0]} needs it: give it, in 1/pb, or the yield"
            )
        if self.luminosity is not None and not known:
            raise ValueError(
                "luminosity: no entry of background.processes has a cross_section, without which it does "
                "nothing: leave it out"
            )
        return self

    def _check_batch(self) -> None:
        """Raise ValueError if a part of the encoder's split does not fill a batch."""
        given = self.splits.encoder
        seen = given if self.folds == 1 else given * (self.folds - 1) // self.folds
        validation = int(seen * self.training.validation_share)
        if min(validation, seen - validation) < self.training.batch:
            raise ValueError(
                f"splits.encoder: {given} events leave {seen - validation} for the training and "
                f"{validation} for its validation, but a batch has {self.training.batch}"
            )

    @property
    def spaces_named(self) -> tuple[str, ...]:
        return tuple(self.spaces)

    @property
    def learned(self) -> dict[str, LearnedSpace]:
        """Return the spaces that an encoder is trained for."""
        return {name: entry for name, entry in self.spaces.items() if isinstance(entry, LearnedSpace)}

    @property
    def observables(self) -> dict[str, ObservablesSpace]:
        """Return the spaces of observables."""
        return {name: entry for name, entry in self.spaces.items() if isinstance(entry, ObservablesSpace)}

    def n_dimensions(self, name: str) -> int:
        """Return the number of dimensions of a space."""
        entry = self.spaces[name]
        if isinstance(entry, JoinedSpace):
            return sum(map(self.n_dimensions, entry.of))
        if isinstance(entry, LearnedSpace):
            return entry.encoder_of(self.encoder).outputs
        return len(entry.columns)

    @property
    def nuisances(self) -> tuple[str, ...]:
        """Return the names of the nuisances: entries of one name are one."""
        return nuisance_names(self.systematics)

    @property
    def n_nuisances(self) -> int | None:
        return len(self.nuisances)

    @property
    def correlation(self) -> Matrix | None:
        """Return the correlation matrix of the auxiliary measurements, None if they are independent."""
        return correlation_matrix(self.nuisances, self.correlations)

    @property
    def separate_samples(self) -> dict[str, SampleEntry]:
        """Return the samples that stand in the place of a process at some nu, by the names of the run."""
        return {name: sample for entry in self.systematics for name, sample in entry.samples.items()}

    @property
    def separate_processes(self) -> dict[str, str]:
        """Return the process that each separate sample stands in the place of."""
        return {name: entry.processes[0] for entry in self.systematics for name in entry.samples}


AnySource = Annotated[LatentSection | PoolSection | Collisions, Field(discriminator="kind")]
KINDS = ("latent", "pools", "events")
