"""Settings: the classes in which every setting of covad is declared once, with its default and its limits.

A section of the study file is such a class, and the room that uses the setting declares it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from covad.errors import SettingsError

#: Toys of one ensemble. 5 sigma need 3.5 million.
MOST_TOYS = 10**7


def _number(value: Any) -> Any:
    """Read numbers that PyYAML takes for text: 1e-3, without a point."""
    if isinstance(value, bool):
        raise ValueError("a number was expected, not true or false")
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"a number was expected, not '{value}'") from None
    return value


def _whole(value: Any) -> Any:
    number = _number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _computable(toys: int) -> int:
    if toys > MOST_TOYS:
        raise ValueError(
            f"at most {MOST_TOYS} toys can be asked for, which tell Z up to 5.2 and take weeks on a cluster, "
            f"not {toys}"
        )
    return toys


def _clip(value: Any) -> Any:
    try:
        number = value if value == "tune" else float(_number(value))
    except (TypeError, ValueError):
        number = math.nan
    if number == "tune" or 0 < number < math.inf:
        return number
    raise ValueError(f"'tune' or a positive number was expected, not {value!r}")


def _vector(value: Any) -> Any:
    """Let a single nuisance be written without brackets."""
    return value if isinstance(value, list | tuple) else [value]


#: A point of the nuisances: one number per systematic, in units of its sigma.
Nu = tuple[float, ...]
#: A correlation matrix of nuisances, row by row.
Matrix = tuple[tuple[float, ...], ...]

Real = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_number), Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, BeforeValidator(_number), Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_whole)]
#: A number of events or of steps; more than anybody has would only fill a disk or never end.
Count = Annotated[int, BeforeValidator(_whole), Field(gt=0, le=10**10)]
#: A width, a number of layers, bumps or fits: what is made of it must fit into memory.
Size = Annotated[int, BeforeValidator(_whole), Field(gt=0, le=10**4)]
ToyCount = Annotated[int, BeforeValidator(_whole), Field(gt=0), AfterValidator(_computable)]
Index = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
Clip = Annotated[Literal["tune"] | float, BeforeValidator(_clip)]
NuEntry = Annotated[tuple[Real, ...], BeforeValidator(_vector), Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
#: Words that no key has, and the key that means the same: for the message about an unknown key.
SYNONYMS = {"pools": "splits", "expected": "yield", "xsec": "cross_section"}
#: Likeness of two words (0 to 1) from which one may be a misspelling of the other.
_CLOSE = 0.7


class Settings(BaseModel):
    """Settings that belong together: unknown keys are refused, nothing changes once they are made."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        def __init__(self, **values: Any) -> None:
            """Raise a `SettingsError` if a value cannot be, as all of covad does."""
            try:
                super().__init__(**values)
            except ValidationError as failure:
                mistake = describe_mistake(failure, type(self))
                raise SettingsError(f"{type(self).__name__}: {mistake}") from failure

        # Within another section pydantic validates as if __init__ were its own: the key is told from the top.
        __init__.__pydantic_base_init__ = True

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values, checked as the first ones were."""
        return type(self)(**(dict(self) | values))


class GrownSettings(Settings):
    """Settings that have got keys since runs were made with them.

    A key of `added` is told only where it has not its default: files and identities that were made before the
    key existed stay as they were.
    """

    added: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_added_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = handler(self)
        fields = type(self).model_fields
        return {
            key: value
            for key, value in told.items()
            if key not in self.added or getattr(self, key) != fields[key].default
        }


def describe_mistake(
    failure: ValidationError,
    section: type[BaseModel],
    tags: tuple[str, ...] = (),
    entry_tags: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """Return one sentence on the first thing that is wrong in a section, with its key.

    A misspelt key comes before the one that is missing for it. `tags` of unions are no part of a key, nor are
    those of the entries of lists and mappings, `entry_tags` by the key of these, each with the kind that a
    file says for it.
    """
    entry_tags = entry_tags or {}
    error = min(failure.errors(), key=lambda error: error["type"] != "extra_forbidden")
    parts = [str(part) for part in error["loc"]]
    key = ".".join(
        part
        for number, part in enumerate(parts)
        if not (
            (number == 1 and part in tags) or (number > 1 and part in entry_tags.get(parts[number - 2], {}))
        )
    )
    match error["type"]:
        case "extra_forbidden":
            known = _keys_at(section, parts[:-1])
            synonym = SYNONYMS.get(parts[-1])
            close = difflib.get_close_matches(parts[-1], known, n=1, cutoff=_CLOSE)
            close = [synonym] if synonym in known else close
            return f"{key}: there is no such key" + (f" (is '{close[0]}' meant?)" if close else "")
        case "missing":
            return f"{key}: this key is needed"
        case "union_tag_not_found" | "union_tag_invalid":
            kinds = entry_tags.get(parts[-2], {}) if len(parts) > 1 else {}
            expected = tuple(dict.fromkeys(kinds.values())) or tags
            return f"{key}.kind: {' or '.join(expected)} was expected"
        case "tuple_type":
            return f"{key}: a list was expected"
    message = error["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    return f"{key}: {message}" if key else message


def _keys_at(section: type[BaseModel], parts: list[str]) -> list[str]:
    """Return the keys of a place in a section; indices and names of entries lead nowhere new."""
    here = [section]
    for part in parts:
        annotations = [model.model_fields[part].annotation for model in here if part in model.model_fields]
        named = [model for annotation in annotations for model in _models_in(annotation)]
        kinds = [
            m
            for m in here
            if "kind" in m.model_fields and part in get_args(m.model_fields["kind"].annotation)
        ]
        here = named or kinds or here
    return sorted({field.alias or key for model in here for key, field in model.model_fields.items()})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections that a type is made of: X in dict[str, X] | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
