"""Where the events of a study come from: the latent world, pools of embedded events, or collisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from covad.embedding.settings import EncoderSettings, Training
from covad.events.selection import Selection
from covad.response.settings import ResponseFit
from covad.settings import Count, Index, Name, NotNegative, Positive, Settings, Size, Whole
from covad.toys.latent_world import MOST_NUISANCES

#: What the yield's nuisance is called in results.
NORMALISATION = "normalisation"
#: Names of samples, splits and pools that are no signals.
_RESERVED = {"background", "encoder", "response", "check", "basis", "reference", "data"}


class LatentSection(Settings):
    """The analytic latent world: fresh events for every toy, `nuisances` of them with an exact response."""

    kind: Literal["latent"]
    nuisances: Annotated[Whole, Field(ge=1, le=MOST_NUISANCES)] = 1

    @property
    def embeddings_named(self) -> tuple[str, ...]:
        return ("latent",)

    @property
    def n_nuisances(self) -> int | None:
        return self.nuisances


class PoolSection(Settings):
    """Pools of embedded events that were written before; `embedding` names the space they live in."""

    kind: Literal["pools"]
    path: Path
    embedding: Name

    @property
    def embeddings_named(self) -> tuple[str, ...]:
        return (self.embedding,)

    @property
    def n_nuisances(self) -> int | None:
        """None: only the files know."""
        return None


class SampleEntry(Settings):
    """Events of one kind: files that are there, or a number to simulate."""

    files: tuple[Path, ...] = ()
    simulate: Count | None = None
    engine: Literal["parametric", "pythia8"] = "parametric"
    lepton_filter: Positive = 23.0

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.files) == (self.simulate is not None):
            raise ValueError("either files or simulate is needed: give one of them")
        return self


class Splits(Settings):
    """Background events per role; no event has two. What is trained on is never tested.

    `check` events judge the response (validation, closure reach), `basis` events choose the bumps of the
    convex test.
    """

    encoder: Count = 1_000_000
    response: Count = 1_000_000
    check: Count = 500_000
    basis: Count = 50_000
    reference: Count = 1_500_000
    data: Count = 1_500_000

    @property
    def total(self) -> int:
        return sum(self.model_dump().values())


class SystematicEntry(Settings):
    """A built-in systematic or a user's function, for `covad.events.systematics.make_systematic`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Name
    sigma: Positive | None = None
    function: str | None = None

    @property
    def description(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class Embedding(Settings):
    """One embedding: alpha weighs L_cov; 0 is the contrastive, unlinearised one."""

    alpha: NotNegative


class Collisions(Settings):
    """Measured or simulated events, their systematics, and how both are embedded.

    With `folds` = k, k encoders are trained, each without one k-th of its split; toys use encoder `fold`.
    """

    kind: Literal["events"]
    background: SampleEntry
    signals: dict[Name, SampleEntry] = Field(default_factory=dict)
    systematics: Annotated[tuple[SystematicEntry, ...], Field(min_length=1)] = (
        SystematicEntry(name="jet_energy_scale"),
    )
    cuts: Selection = Selection()
    splits: Splits = Splits()
    #: Of coarse features, whose events can be alike by chance: what is alike is counted, and not refused.
    duplicates: Literal["refused", "allowed"] = "refused"
    embeddings: Annotated[dict[Name, Embedding], Field(min_length=1)]
    encoder: EncoderSettings = EncoderSettings()
    training: Training = Training()
    response: ResponseFit = ResponseFit()
    folds: Size = 1
    fold: Index = 0
    #: Directory of the study file, where modules of the user's systematics are looked for.
    folder: Path | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.fold >= self.folds:
            raise ValueError(f"fold: there are {self.folds} folds, numbered from 0")
        for name in _RESERVED & set(self.signals):
            raise ValueError(f"signals.{name}: the name is taken, choose another one")
        if any(entry.name == NORMALISATION for entry in self.systematics):
            raise ValueError(f"systematics: the name {NORMALISATION} is taken, choose another one")
        names = [entry.name for entry in self.systematics]
        for name in {name for name in names if names.count(name) > 1}:
            raise ValueError(f"systematics: the name {name} stands twice, and every nuisance needs its own")
        # both parts of the encoder's split must fill a batch
        given = self.splits.encoder
        seen = given if self.folds == 1 else given * (self.folds - 1) // self.folds
        validation = int(seen * self.training.validation_share)
        if min(validation, seen - validation) < self.training.batch:
            raise ValueError(
                f"splits.encoder: {given} events leave {seen - validation} for the training and "
                f"{validation} for its validation, but a batch has {self.training.batch}"
            )
        simulated, total = self.background.simulate, self.splits.total
        if simulated is not None and simulated < total:
            raise ValueError(
                f"background.simulate: {simulated} events are fewer than the {total} of the splits"
            )
        return self

    @property
    def embeddings_named(self) -> tuple[str, ...]:
        return tuple(self.embeddings)

    @property
    def n_nuisances(self) -> int | None:
        return len(self.systematics)


AnySource = Annotated[LatentSection | PoolSection | Collisions, Field(discriminator="kind")]
KINDS = ("latent", "pools", "events")
