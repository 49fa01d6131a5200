"""Settings of the response. They stand apart so that reading a study needs no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from covad.settings import Count, Index, NotNegative, Positive, Settings, Size


class ResponseFit(Settings):
    """Hidden layers of g and how it is fitted; `fits` heads from different seeds are averaged."""

    hidden: tuple[Size, ...] = (128, 128, 64)
    epochs: Count = 12
    batch: Count = 8192
    learning_rate: Positive = 5e-3
    weight_decay: NotNegative = 1e-6
    validation_share: Annotated[Positive, Field(lt=1)] = 0.1
    patience: Count = 4
    fits: Size = 1
    #: Fit every head on events drawn anew, with repetitions, so that their spread tells the error of g.
    bootstrap: bool = False
    #: Pairs of systematics with a mixed term in D, by name; all of up to two systematics unless told.
    cross: tuple[tuple[str, str], ...] | None = None


class ResponseSettings(ResponseFit):
    """The response of a study: how it is fitted, and whether tests leave out nuisances that hardly matter."""

    prune: bool = False

    @property
    def fit(self) -> ResponseFit:
        return ResponseFit(**self.model_dump(exclude={"prune"}))


class FitSettings(ResponseFit):
    """One fit of the response, with its seed."""

    seed: Index = 0
