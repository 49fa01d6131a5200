"""Settings of the encoder and of its training. They stand apart so that reading a study needs no torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from covad.settings import Count, Index, NotNegative, Positive, Settings, Size


class EncoderSettings(Settings):
    """Sizes of the encoder; these defaults fit a laptop, `paper()` gives those of the paper."""

    width: Size = 32
    layers: Size = 2
    heads: Size = 4
    feed_forward: Size = 64
    outputs: Size = 4
    projector: Size = 64

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"an encoder of width {self.width} cannot have {self.heads} heads")
        return self

    @classmethod
    def paper(cls) -> EncoderSettings:
        return cls(width=64, layers=4, heads=8, feed_forward=256, projector=256)


class Training(Settings):
    """How stage 1 is trained, the same for every embedding of a study."""

    steps: Count = 3000
    batch: Count = 512
    learning_rate: Positive = 2e-3
    warm_up: Index = 100
    weight_decay: NotNegative = 1e-6
    temperature: Positive = 0.1
    ratio_hidden: tuple[Size, ...] = (64, 64)
    validate_every: Count = 250
    validation_batches: Count = 8
    patience: Count = 8
    contrast_on: Literal["projector", "z"] = "projector"
    validation_share: Annotated[Positive, Field(lt=1)] = 0.1
    #: Names of the systematics that enter L_cov; the first two that move events unless told.
    covariance: tuple[str, ...] | None = None


class TrainingSettings(Training):
    """The training of one encoder. Both losses are means over events; in the paper both are sums."""

    alpha: NotNegative = 30.0
    seed: Index = 0
