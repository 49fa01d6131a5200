"""The mapping file: how the branches of a tree become the collections, weights and labels of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    ValidationError,
    model_validator,
)

from covad.errors import CovadError, FileFormatError, MappingError, UnknownNameError
from covad.events.conversion.expressions import parse
from covad.events.layout import Collection, EventLayout
from covad.settings import Name, Real, Settings, Size, describe_mistake
from covad.storage.yaml_files import parse_yaml, read_yaml

#: Ready mappings: `covad convert --mapping NAME`.
READY = ("nanoaod", "atlas-flat", "atlas-open-data", "physlite", "delphes")
#: Tags of the two forms that some entries have.
_FORMS = ("entry", "plain")
#: Stands in a key and a pattern of `variations` for whatever the branches have there.
WILDCARD = "*"


def _written(value: Any) -> Any:
    """Let a number stand where an expression is expected."""
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _readable(text: str) -> str:
    try:
        parse(text)
    except MappingError as failure:
        raise ValueError(str(failure)) from failure
    return text


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def _unlisted(values: tuple[str, ...]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


def _form(value: Any) -> str:
    """Return which of two forms an entry has, so that its mistakes are told of that one."""
    return "entry" if isinstance(value, Mapping | Settings) else "plain"


Formula = Annotated[str, BeforeValidator(_written), AfterValidator(_readable)]
#: One, or several in a list.
Candidates = Annotated[
    tuple[str, ...], BeforeValidator(_listed), PlainSerializer(_unlisted), Field(min_length=1)
]
Formulas = Annotated[
    tuple[Formula, ...], BeforeValidator(_listed), PlainSerializer(_unlisted), Field(min_length=1)
]


class CollectionEntry(Settings):
    """Objects of one kind: features, object cut, and which of them fill the slots."""

    #: Left out where the features are lists of expressions: as many as these have.
    slots: Size | None = None
    #: One expression per feature; or a list, one per object, where each object has branches of its own.
    features: dict[Name, Formulas] = Field(min_length=1)
    #: Objects that are kept. Names of features stand for them, here and in `sort`.
    cut: Formula | None = None
    #: Objects with the largest value fill the slots; default: the first feature.
    sort: Formula | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_one_length(cls, content: Any) -> Any:
        features = content.get("features") if isinstance(content, Mapping) else None
        if isinstance(features, Mapping):
            lengths = {len(f) for f in features.values() if isinstance(f, list | tuple)}
            if len(lengths) > 1:
                raise ValueError("features that are lists need the same number of objects in each")
        return content

    @model_validator(mode="after")
    def _with_slots(self) -> Self:
        if self.slots is None and all(len(f) == 1 for f in self.features.values()):
            raise ValueError("slots: this key is needed")
        return self

    @property
    def n_slots(self) -> int:
        if self.slots is not None:
            return self.slots
        return max(len(f) for f in self.features.values())

    def formulas(self) -> Iterator[tuple[str, str, frozenset[str]]]:
        """Yield key, expression and the names in it that are features, not branches."""
        for name, feature in self.features.items():
            for text in feature:
                yield f"features.{name}", text, frozenset()
        for key, one in (("cut", self.cut), ("sort", self.sort)):
            if one is not None:
                yield key, one, frozenset(self.features)


class SumEntry(Settings):
    """The sum of generator weights: an expression, summed over all rows of a tree before any cut."""

    #: Left out: the tree of the events.
    tree: str | None = None
    sum: Formula


class ProcessEntry(Settings):
    """A branch that says which process an event is of."""

    branch: str
    names: dict[int | str, Name] = Field(min_length=1)


Sum = Annotated[Annotated[SumEntry, Tag("entry")] | Annotated[Real, Tag("plain")], Discriminator(_form)]
Process = Annotated[
    Annotated[ProcessEntry, Tag("entry")] | Annotated[Name, Tag("plain")], Discriminator(_form)
]


class EventMapping(Settings):
    """How the branches of a tree become events."""

    description: str = ""
    #: Left out where the file has only one tree. Several names: the first one that the file has.
    tree: Candidates | None = None
    #: Names for branches that are called differently in different files: the first one that is there.
    aliases: dict[str, Candidates] = Field(default_factory=dict)
    collections: dict[Name, CollectionEntry] = Field(min_length=1)
    #: Expressions with a name, for use in others.
    derived: dict[str, Formula] = Field(default_factory=dict)
    #: Events that are kept.
    select: Formula | None = None
    weight: Formula | None = None
    variations: dict[str, Annotated[str, BeforeValidator(_written)]] = Field(default_factory=dict)
    #: Other versions of the objects: what replaces a branch or a derived quantity in each.
    varied: dict[Name, dict[str, Formula]] = Field(default_factory=dict)
    sum_of_weights: Sum | None = None
    process: Process | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, text in self.variations.items():
            try:
                _ = WILDCARD in name or parse(text)
            except MappingError as failure:
                raise ValueError(f"variations.{name}: {failure}") from failure
        try:
            _ = self.layout
            for _ in self.leaves():  # a quantity that needs itself is found here
                pass
        except CovadError as failure:
            raise ValueError(str(failure)) from failure
        for name, replaced in self.varied.items():
            if strange := set(replaced) - self.used_by_objects:
                raise ValueError(
                    f"varied.{name}: '{min(strange)}' is used in no collection, so that nothing would vary"
                )
        if self.weight is None and (self.variations or self.sum_of_weights is not None):
            raise ValueError("variations and sum_of_weights need a weight")
        told_apart = isinstance(self.sum_of_weights, SumEntry) and self.sum_of_weights.tree is None
        if isinstance(self.process, ProcessEntry) and self.sum_of_weights is not None and not told_apart:
            raise ValueError(
                "sum_of_weights: one number cannot say what each process has where a branch tells the "
                "process: leave `tree` out, or convert the processes one by one"
            )
        return self

    @property
    def layout(self) -> EventLayout:
        return EventLayout(
            tuple(Collection(name, c.n_slots, tuple(c.features)) for name, c in self.collections.items())
        )

    @property
    def used_by_objects(self) -> frozenset[str]:
        """All names that the collections depend on."""
        return frozenset(name for c in self.collections for name in self.used_by(c))

    def used_by(self, collection: str) -> frozenset[str]:
        """Return all names that one collection depends on, directly or through others."""
        return frozenset(
            name
            for _, text, local in self.collections[collection].formulas()
            for name in self.closure(text, local)
        )

    def formulas(self) -> Iterator[tuple[str, str, frozenset[str]]]:
        """Yield key, expression and local names of all that is computed from the tree of the events."""
        for name, collection in self.collections.items():
            for key, text, local in collection.formulas():
                yield f"collections.{name}.{key}", text, local
        if self.select is not None:
            yield "select", self.select, frozenset()
        if self.weight is not None:
            yield "weight", self.weight, frozenset()
        for name, text in self.variations.items():
            yield f"variations.{name}", text, frozenset()
        for name, replaced in self.varied.items():
            for target, text in replaced.items():
                yield f"varied.{name}.{target}", text, frozenset()
        if isinstance(self.sum_of_weights, SumEntry) and self.sum_of_weights.tree is None:
            yield "sum_of_weights.sum", self.sum_of_weights.sum, frozenset()

    def leaves(self) -> Iterator[tuple[str, str]]:
        """Yield the names that must be branches or aliases, each with the key that needs it."""
        for key, text, local in self.formulas():
            if WILDCARD not in key:
                for name in self.closure(text, local):
                    if not self.defines(name):
                        yield name, key
        if isinstance(self.process, ProcessEntry):
            yield self.process.branch, "process.branch"

    def defines(self, name: str) -> bool:
        """Return whether the mapping itself says what a name is."""
        collection, _, feature = name.partition(".")
        return name in self.derived or (
            collection in self.collections and feature in self.collections[collection].features
        )

    def closure(self, text: str, local: frozenset[str] = frozenset(), path: tuple[str, ...] = ()) -> set[str]:
        """Return the names in an expression and all that these depend on."""
        found: set[str] = set()
        for name in parse(text).names - local:
            found.add(name)
            if name in path:
                chain = " needs ".join((*path, name))
                raise MappingError(f"'{name}' needs itself: {chain}; give one another name")
            if name in self.derived:
                found |= self.closure(self.derived[name], frozenset(), (*path, name))
            elif self.defines(name):
                for _, one, inner in self.collections[name.partition(".")[0]].formulas():
                    found |= self.closure(one, inner, (*path, name))
        return found

    def without_weights(self) -> EventMapping:
        """Return the mapping for data: no weights, no variations, no shifted branches."""
        return self.changed(weight=None, variations={}, varied={}, sum_of_weights=None)

    def plain(self) -> dict[str, Any]:
        """Return the mapping as plain data without what is left at its default."""
        return self.model_dump(exclude_defaults=True)


def read_mapping(path: Path) -> EventMapping:
    """Read and check a mapping file."""
    try:
        return parse_mapping(read_yaml(path), str(path))
    except FileNotFoundError as failure:
        raise MappingError(
            f"{path}: cannot be read (there is no such file); `covad convert --describe FILE` shows one that "
            f"fits, and {', '.join(READY)} are ready"
        ) from failure
    except FileFormatError as failure:
        raise MappingError(str(failure)) from failure


def parse_mapping(content: Any, where: str) -> EventMapping:
    """Check plain data; `where` names it in messages."""
    if not isinstance(content, Mapping):
        raise MappingError(f"{where}: a mapping of keys was expected, with `collections` among them")
    try:
        return EventMapping.model_validate(content)
    except ValidationError as failure:
        raise MappingError(f"{where}: {describe_mistake(failure, EventMapping, _FORMS)}") from failure


def ready_text(name: str) -> str:
    """Return a ready mapping as it is written: YAML with comments."""
    if name not in READY:
        raise UnknownNameError(f"there is no ready mapping '{name}' (there are {', '.join(READY)})")
    return files("covad.events.conversion").joinpath("mappings", f"{name}.yaml").read_text(encoding="utf-8")


def ready_mapping(name: str) -> EventMapping:
    return parse_mapping(parse_yaml(ready_text(name), name), name)


def restricted(mapping: EventMapping, collections: Iterable[str]) -> EventMapping:
    """Return the mapping with some of its collections only."""
    return mapping.changed(collections={name: mapping.collections[name] for name in collections})
