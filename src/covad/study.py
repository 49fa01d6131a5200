"""The study file: what a user asks for, in YAML, checked before any work starts."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from covad.errors import StudyError
from covad.toys.plan import Treatment

#: Keys that may change between runs of one study: how many toys, where they are computed, where pools lie.
FREE_KEYS = ("toys", "cluster", "source.path")
_KINDS = ("latent", "pools")


def _number(value: Any) -> Any:
    """PyYAML reads 1e-3, without a point, as text."""
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


def _clip(value: Any) -> Any:
    try:
        number = value if value == "tune" else float(_number(value))
    except (TypeError, ValueError):
        number = math.nan
    if number == "tune" or 0 < number < math.inf:
        return number
    raise ValueError(f"'tune' or a positive number was expected, not {value!r}")


def _vector(value: Any) -> Any:
    """A single nuisance may be written without brackets."""
    return value if isinstance(value, list | tuple) else [value]


Real = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_number), Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[int, BeforeValidator(_whole), Field(gt=0)]
Clip = Annotated[Literal["tune"] | float, BeforeValidator(_clip)]
Nu = Annotated[tuple[Real, ...], BeforeValidator(_vector), Field(min_length=1)]


class Section(BaseModel):
    """A part of the study: unknown keys are refused, nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LatentWorld(Section):
    """The analytic latent world: fresh events for every toy, `nuisances` of them with an exact response."""

    kind: Literal["latent"]
    nuisances: Annotated[Whole, Field(ge=1, le=3)] = 1


class PoolDirectory(Section):
    """Pools of embedded events that were written before; `embedding` names the space they live in."""

    kind: Literal["pools"]
    path: Path
    embedding: str


class Sizes(Section):
    """Events of a toy: expected data at nu = 0, and reference."""

    expected: Positive = 10_000.0
    reference: Count = 52_000


class NetworkTest(Section):
    """The paper's network; see `covad.toys.alternatives.NetworkSettings`. `clip` is W, a number or `tune`."""

    clip: Clip = "tune"
    starts: Count = 1
    hops: Annotated[Whole, Field(ge=0)] = 0
    hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (4, 4)


class ConvexTest(Section):
    """The ridge on fixed features; see `covad.toys.alternatives.ConvexSettings`."""

    features: Count = 100
    width_quantiles: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.1,)
    spread: Positive = 1.0
    seed: Annotated[Whole, Field(ge=0)] = 0


class Tests(Section):
    """The tests to run, one or both."""

    __test__ = False

    network: NetworkTest | None = None
    convex: ConvexTest | None = None

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if self.network is None and self.convex is None:
            raise ValueError("at least one of network and convex is needed")
        return self


class Cluster(Section):
    """Jobs of a batch system for `covad run`; `options` go to dask-jobqueue as they are."""

    system: Literal["slurm", "htcondor"]
    jobs: Count
    cores: Count = 1
    memory: str = "2 GB"
    options: dict[str, Any] = Field(default_factory=dict)


class Study(Section):
    """Everything that decides the results, and `toys` and `cluster`, which do not."""

    seed: Annotated[Whole, Field(ge=0)]
    source: Annotated[LatentWorld | PoolDirectory, Field(discriminator="kind")]
    sizes: Sizes = Sizes()
    normalisation: Positive | None = 0.1
    response_order: Literal[1, 2] = 1
    tests: Tests
    treatments: Annotated[tuple[Treatment, ...], Field(min_length=1)] = (Treatment.PROFILED,)
    nu: Annotated[tuple[Nu, ...], Field(min_length=1)] = ((0.0,),)
    signals: dict[str, Annotated[tuple[Positive, ...], Field(min_length=1)]] = Field(default_factory=dict)
    toys: Count = 400
    cluster: Cluster | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        lengths = {len(nu) for nu in self.nu}
        if len(lengths) > 1:
            raise ValueError("nu: all points need the same number of nuisances")
        if isinstance(self.source, LatentWorld) and lengths != {self.source.nuisances}:
            raise ValueError(f"nu: the source has {self.source.nuisances} nuisances, its points do not")
        if tuple(0.0 for _ in self.nu[0]) not in self.nu:
            raise ValueError("nu: the central point 0 is needed, the null is drawn there")
        for key in ("nu", "treatments"):
            if len(set(getattr(self, key))) < len(getattr(self, key)):
                raise ValueError(f"{key}: an entry stands twice")
        return self

    def plain(self) -> dict[str, Any]:
        """The study as JSON data, defaults filled in."""
        return self.model_dump(mode="json")


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key that stands twice, where the standard would let the last one win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise StudyError(f"key '{key}' stands twice (line {node.start_mark.line + 1} and after)")
        return super().construct_mapping(node, deep)


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506, it is a SafeLoader
    except StudyError as failure:
        raise StudyError(f"{path}: {failure}") from failure
    except (OSError, UnicodeDecodeError) as failure:
        raise StudyError(f"{path}: cannot be read ({failure})") from failure
    except yaml.YAMLError as failure:
        raise StudyError(f"{path}: is not YAML ({' '.join(str(failure).split())})") from failure
    return _beside(path, parse_study(content, str(path)))


def _beside(path: Path, study: Study) -> Study:
    """Paths in a study file are relative to the file."""
    if not isinstance(study.source, PoolDirectory):
        return study
    source = study.source.model_copy(update={"path": (path.parent / study.source.path).resolve()})
    return study.model_copy(update={"source": source})


def parse_study(content: Any, where: str) -> Study:
    """Check plain data; `where` is for the message."""
    if not isinstance(content, Mapping):
        raise StudyError(f"{where}: a mapping of keys was expected")
    try:
        return Study.model_validate(content)
    except ValidationError as failure:
        raise StudyError(f"{where}: {_sentence(failure)}") from failure


def _sentence(failure: ValidationError) -> str:
    """The first thing that is wrong, with its key; a misspelt key before the one that is missing for it."""
    error = min(failure.errors(), key=lambda error: error["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in error["loc"] if part not in _KINDS)
    match error["type"]:
        case "extra_forbidden":
            return f"{key}: there is no such key{_suggestion(str(error['loc'][-1]))}"
        case "missing":
            return f"{key}: this key is needed"
        case "union_tag_not_found" | "union_tag_invalid":
            return f"{key}.kind: {' or '.join(_KINDS)} was expected"
        case "tuple_type":
            return f"{key}: a list was expected"
    message = error["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    return f"{key}: {message}" if key else message


def _suggestion(key: str) -> str:
    known = {name for model in _sections(Section) for name in model.model_fields}
    close = difflib.get_close_matches(key, sorted(known), n=1)
    return f" (is '{close[0]}' meant?)" if close else ""


def _sections(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for part in model.__subclasses__():
        yield part
        yield from _sections(part)


def json_schema() -> str:
    """JSON Schema of the study file, for editors."""
    return json.dumps(Study.model_json_schema(), indent=2) + "\n"


def changed_key(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> str | None:
    """The first key in which two plain studies differ, with both values; the free keys do not count."""
    for key in sorted({*before, *after}):
        name = f"{path}{key}"
        old, new = before.get(key), after.get(key)
        if old == new or name in FREE_KEYS:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            return changed_key(old, new, f"{name}.")
        return f"{name} was {json.dumps(old)} and is now {json.dumps(new)}"
    return None
