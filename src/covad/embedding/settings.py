"""Settings of the encoder and of its training. They stand apart so that reading a study needs no torch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from covad.settings import Count, GrownSettings, Index, NotNegative, Positive, Size

#: What L_keep makes z retain: observables, the inputs of the encoder, a spread within every process, or what
#: tells changed events from others.
KeepKind = Literal["observables", "inputs", "variance", "changes"]


def _as_kinds(value: Any) -> Any:
    """Return one kind or several as a tuple; raise ValueError for one that is none, or stands twice."""
    kinds = (value,) if isinstance(value, str) else value
    if isinstance(kinds, list | tuple):
        for kind in kinds:
            if kind not in get_args(KeepKind):
                raise ValueError(f"there is no kind '{kind}' (there are {', '.join(get_args(KeepKind))})")
            if kinds.count(kind) > 1:
                raise ValueError(f"the kind '{kind}' stands twice")
    return kinds


#: Kinds of L_keep; files write a single one without brackets.
KeepKinds = Annotated[
    tuple[KeepKind, ...],
    Field(min_length=1),
    BeforeValidator(_as_kinds, json_schema_input_type=KeepKind | tuple[KeepKind, ...]),
    PlainSerializer(lambda kinds: kinds[0] if len(kinds) == 1 else kinds),
]


class EncoderSettings(GrownSettings):
    """Kind and sizes of the encoder; these defaults fit a laptop, `paper()` gives those of the paper.

    `frame` says whether azimuth and the sign of eta are those of the detector, or relative to an axis of the
    event: its leading object among the collections `axis` (None: leptons where the layout has some).
    """

    added: ClassVar[tuple[str, ...]] = ("kind", "frame", "axis", "hidden")

    width: Size = 32
    layers: Size = 2
    heads: Size = 4
    feed_forward: Size = 64
    outputs: Size = 4
    projector: Size = 64
    kind: Literal["transformer", "mlp"] = "transformer"
    frame: Literal["detector", "event"] = "detector"
    axis: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    #: Hidden layers of the MLP.
    hidden: Annotated[tuple[Size, ...], Field(min_length=1)] = (128, 128, 64)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"an encoder of width {self.width} cannot have {self.heads} heads")
        if self.axis is not None and self.frame != "event":
            raise ValueError("axis does nothing in the frame of the detector: set frame to event")
        if self.kind == "mlp":
            for key in ("width", "layers", "heads", "feed_forward"):
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise ValueError(f"{key} is a size of the transformer, an mlp has hidden: leave it out")
        elif self.hidden != type(self).model_fields["hidden"].default:
            raise ValueError("hidden is a size of the mlp: set kind to mlp, or leave it out")
        return self

    @classmethod
    def paper(cls) -> EncoderSettings:
        return cls(width=64, layers=4, heads=8, feed_forward=256, projector=256)


class Training(GrownSettings):
    """How stage 1 is trained, the same for every embedding of a study."""

    added: ClassVar[tuple[str, ...]] = ("keep_hidden", "device", "changes")

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
    #: Hidden layers of the decoder of L_keep.
    keep_hidden: tuple[Size, ...] = (64, 64)
    #: Names of the changes that `keep: changes` knows; all for which events have the objects unless told.
    changes: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    #: Where encoders are trained and events embedded; auto takes a GPU where there is one.
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"


class Objective(GrownSettings):
    """The weights of the losses: L = contrast L_supCL + alpha L_cov + beta L_keep; eq:total has beta = 0.

    L_keep of several kinds is their mean.
    """

    added: ClassVar[tuple[str, ...]] = ("contrast", "beta", "keep")

    alpha: NotNegative
    contrast: NotNegative = 1.0
    beta: NotNegative = 0.0
    keep: KeepKinds | None = None

    @property
    def kept(self) -> tuple[KeepKind, ...]:
        """Return the kinds of L_keep: none, one or several."""
        return self.keep or ()

    @model_validator(mode="after")
    def _something_to_learn(self) -> Self:
        if self.beta > 0 and self.keep is None:
            kinds = ", ".join(get_args(KeepKind))
            raise ValueError(f"beta weighs L_keep: say what to keep (keep: one or several of {kinds})")
        if self.beta == 0 and self.keep is not None:
            told = ", ".join(self.kept)
            raise ValueError(f"keep: {told} does nothing without a weight: give beta, or leave it out")
        if self.contrast == 0 and self.beta == 0:
            raise ValueError("contrast: 0 leaves nothing that shapes z: give beta and keep")
        return self


class TrainingSettings(Training, Objective):
    """The training of one encoder. All losses are means over events; in the paper both are sums."""

    added: ClassVar[tuple[str, ...]] = Training.added + Objective.added

    alpha: NotNegative = 30.0
    seed: Index = 0
