"""Spaces in a study file: learned ones, observables, and several joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from covad.embedding.settings import EncoderSettings, Objective
from covad.events.observables import BUILT_IN
from covad.settings import Index, Name, Settings, Size

#: Columns of one space, at most.
_MOST_COLUMNS = 100


class LearnedSpace(Objective):
    """A trained encoder: alpha weighs L_cov; 0 is the contrastive, unlinearised one. beta weighs L_keep.

    `outputs` and `encoder` take the place of those of the source; each `seed` is a training of its own.
    """

    added: ClassVar[tuple[str, ...]] = (*Objective.added, "outputs", "seed", "encoder")

    kind: Literal["learned"] = "learned"
    outputs: Size | None = None
    seed: Index = 0
    encoder: EncoderSettings | None = None

    @model_validator(mode="after")
    def _outputs_once(self) -> Self:
        if self.outputs is not None and self.encoder is not None:
            raise ValueError("outputs stands beside encoder, which has outputs of its own: give one of them")
        return self

    def encoder_of(self, shared: EncoderSettings) -> EncoderSettings:
        """Return the settings of its encoder, where the source has `shared` ones."""
        if self.encoder is not None:
            return self.encoder
        return shared if self.outputs is None else shared.changed(outputs=self.outputs)

    @property
    def sort(self) -> Literal["covariant", "contrastive"]:
        """Return what people call it."""
        return "covariant" if self.alpha else "contrastive"


class ObservablesSpace(Settings):
    """Observables: built-in ones by name, or `names` of the columns that a user's function returns."""

    kind: Literal["observables"]
    observables: Annotated[tuple[str, ...], Field(max_length=_MOST_COLUMNS)] = ()
    function: str | None = None
    names: Annotated[tuple[Name, ...], Field(max_length=_MOST_COLUMNS)] = ()

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.observables) == (self.function is not None):
            raise ValueError("either observables or a function with names is needed: give one of them")
        if bool(self.names) != (self.function is not None):
            raise ValueError(
                "names and function belong together: name every column that the function returns"
            )
        for name in self.observables:
            if name not in BUILT_IN:
                raise ValueError(
                    f"there is no observable '{name}' (there are {', '.join(BUILT_IN)}; your own: function)"
                )
        for name in self.columns:
            if name == "cells":
                raise ValueError("names: 'cells' is taken, choose another one")
            if self.columns.count(name) > 1:
                raise ValueError(f"the observable '{name}' stands twice")
        return self

    @property
    def sort(self) -> Literal["observables"]:
        return self.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the observables."""
        return self.observables or self.names


class JoinedSpace(Settings):
    """Other spaces of the study side by side."""

    kind: Literal["joined"]
    of: Annotated[tuple[Name, ...], Field(min_length=2)]

    @property
    def sort(self) -> Literal["joined"]:
        return self.kind


#: Tags of the union below, each with the kind that the study file says.
SPACE_KINDS = {"learned": "learned", "observables": "observables", "joined": "joined"}


def _tag(entry: Any) -> str:
    """Return the tag of an entry that is plain data, or made already."""
    kind = entry.get("kind") if isinstance(entry, Mapping) else getattr(entry, "kind", None)
    return "learned" if kind is None else str(kind)


SpaceEntry = Annotated[
    Annotated[LearnedSpace, Tag("learned")]
    | Annotated[ObservablesSpace, Tag("observables")]
    | Annotated[JoinedSpace, Tag("joined")],
    Discriminator(_tag),
]


def check_spaces(spaces: Mapping[str, SpaceEntry]) -> None:
    """Raise ValueError if a joined space joins what is not there, is joined itself, or stands twice."""
    for name, entry in spaces.items():
        if not isinstance(entry, JoinedSpace):
            continue
        for part in entry.of:
            if entry.of.count(part) > 1:
                raise ValueError(f"spaces.{name}.of: '{part}' stands twice")
            if part not in spaces or isinstance(spaces[part], JoinedSpace):
                single = [known for known, other in spaces.items() if not isinstance(other, JoinedSpace)]
                raise ValueError(
                    f"spaces.{name}.of: '{part}' is no space that can be joined "
                    f"(there are {', '.join(single) or 'none'})"
                )
