"""What the values of a study file are made of."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


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
NotNegative = Annotated[float, BeforeValidator(_number), Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[int, BeforeValidator(_whole), Field(gt=0)]
Index = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
Clip = Annotated[Literal["tune"] | float, BeforeValidator(_clip)]
Nu = Annotated[tuple[Real, ...], BeforeValidator(_vector), Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]


class Settings(BaseModel):
    """A part of the study: unknown keys are refused, nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
