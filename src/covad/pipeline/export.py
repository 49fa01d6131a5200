"""Encoders and responses of a run for other programs, as ONNX: `covad export` writes them into the run.

The encoder of covad sorts events by their number of objects; an ONNX graph has one shape. So the exported
encoder takes padded events with a mask and hides the padding from the attention, with the same weights and
the same result. Every file is compared with covad's own models on events of the run before it gets its name.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from covad.embedding.embed import encode
from covad.embedding.encoder import Encoder
from covad.embedding.spaces import JoinedSpace, ObservableSpace, SpaceMap
from covad.errors import CovadError, MissingExtraError, StudyError, extra_advice
from covad.events.observables import OBSERVABLES_VERSION
from covad.events.processes import BACKGROUND
from covad.response.model import ResponseModel
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory, space_name
from covad.runs.models import load_response, load_space
from covad.runs.scale import load_scale
from covad.storage.atomic import replacing, write_json, writing
from covad.study import Collisions

OPSET = 18
#: Largest difference between ONNX and covad, of z and of the columns of the response.
TOLERANCE = 1e-5
#: Events of the run on which every file is checked.
CHECK_EVENTS = 2000

Arrays = dict[str, NDArray[Any]]


class ExportError(CovadError):
    """An exported model does not compute what covad computes."""


@dataclass(frozen=True)
class Exported:
    """A file that was written, and how far it was from covad's own numbers."""

    path: Path
    largest_difference: float


class PaddedEncoder(nn.Module):
    """The encoder on padded events: particles (N, slots, features) and mask (N, slots) -> z."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, particles: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.encoder.padded(particles, mask)


def export_run(path: Path, out: Path | None = None) -> list[Exported]:
    """Write encoders and responses of every space, described beside them; nothing unchecked stays.

    Observables have no graph: the description names them.

    They are those of the fold that the toys use, in `export` of the run unless told otherwise.
    """
    directory = RunDirectory(path)
    study = directory.study()
    if not isinstance(study.source, Collisions):
        raise StudyError(f"{path}: only a run whose study has a source of kind 'events' has models to export")
    data = CollisionData.of(study, directory)
    folder = out or path / "export"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with data.open(BACKGROUND) as files:
        selected, _ = data.selection.apply(files.read(data.rows["reference"][:CHECK_EVENTS]))
    written: list[Exported] = []
    for space in dict.fromkeys(name for name, _ in study.spaces):
        orders = sorted(order for name, order in study.spaces if name == space)
        mapped = load_space(data, space)
        responses = {order: load_response(data, (space, order)) for order in orders}
        z = encode(mapped, selected.particles)
        inputs = {"particles": selected.particles, "mask": selected.particles[..., 0] > 0}
        for name, encoder in encoders_of(space, mapped).items():
            target = folder / f"{name}_encoder.onnx"
            own = encode(encoder, selected.particles)
            if target not in [each.path for each in written]:
                written.append(_export(PaddedEncoder(encoder.cpu()), inputs, "z", own, target))
        for order, response in responses.items():
            target = folder / f"{space_name((space, order))}_response.onnx"
            written.append(_export(response, {"z": z}, "columns", response.columns(z), target))
        write_json(folder / f"{space}.json", describe(data, space, mapped, responses))
    return written


def encoders_of(name: str, space: SpaceMap) -> dict[str, Encoder]:
    """Return the encoders that a space is made of, by the names of their spaces: one, none or some."""
    parts = space.parts if isinstance(space, JoinedSpace) else {name: space}
    return {part: found for part, found in parts.items() if isinstance(found, Encoder)}


def _export(
    model: nn.Module, inputs: Arrays, output: str, expected: NDArray[np.float32], path: Path
) -> Exported:
    """Write a model, run it in onnxruntime, and keep it only if it gives what is expected."""
    with replacing(path) as temporary:
        with writing(path):
            temporary.write_bytes(_onnx(model, inputs, output))
        found = run_onnx(temporary, inputs)
        # the largest difference, relative where numbers exceed one
        difference = float((np.abs(found - expected) / np.maximum(1.0, np.abs(expected))).max(initial=0.0))
        if not difference <= TOLERANCE:
            raise ExportError(
                f"{path}: not written, because ONNX differs from torch by {difference:.2g}: update onnx "
                "and onnxruntime"
            )
    return Exported(path, difference)


def _onnx(model: nn.Module, inputs: Arrays, output: str) -> bytes:
    """Return the graph with its weights, for any number of events."""
    _require("onnxscript")
    examples = tuple(torch.from_numpy(array[:3].copy()) for array in inputs.values())
    events = torch.export.Dim("events")
    # what the exporter says is about the inside of torch: nothing that a user could mend
    talkative = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = talkative.level
    talkative.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                model.eval(),
                examples,
                input_names=list(inputs),
                output_names=[output],
                dynamic_shapes=tuple({0: events} for _ in inputs),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    finally:
        talkative.setLevel(level)
    if program is None:
        raise TypeError("torch exported nothing")
    # torch notes the lines of code behind every node, with the paths of this machine
    graph: Any = program.model_proto
    for part in (*graph.graph.node, *graph.graph.value_info, *graph.graph.input, *graph.graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    del graph.graph.metadata_props[:]
    return bytes(graph.SerializeToString(deterministic=True))


def run_onnx(path: Path, inputs: Arrays) -> NDArray[np.float32]:
    """Return what another program would compute from an exported file."""
    runtime = _require("onnxruntime")
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs)[0])


def _require(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as failure:
        raise MissingExtraError(f"export needs the extra 'onnx': {extra_advice('onnx')}") from failure


def describe(
    data: CollisionData, space: str, mapped: SpaceMap, responses: dict[int, ResponseModel]
) -> dict[str, Any]:
    """Return everything that another program needs beside the graphs, as plain data."""
    pools = data.products.pools((space, next(iter(responses))))
    parts = mapped.parts if isinstance(mapped, JoinedSpace) else {space: mapped}
    columns = (
        "columns: g, one per systematic; for order 2 then D, the rows of its upper triangle; "
        "nu.g + 1/2 nu.D.nu is the log of the density of events at nu relative to nu = 0, yield included"
    )
    return {
        "space": space,
        "layout": mapped.layout.describe(),
        "cuts": data.source.cuts.model_dump(mode="json"),
        "systematics": [entry.description for entry in data.source.systematics],
        "z": [_described(name, part) for name, part in parts.items()],
        "standardisation": load_scale(pools).plain(),
        "responses": [
            {
                "file": f"{space_name((space, order))}_response.onnx",
                "order": order,
                "input": "z: float32 (events, outputs), as the parts of z give it, not standardised",
                "output": columns,
                "constants": {name: values.tolist() for name, values in model.named_buffers()},
            }
            for order, model in responses.items()
        ],
    }


def _described(name: str, part: SpaceMap) -> dict[str, Any]:
    """Return what some columns of z are: the output of an encoder, or observables."""
    told: dict[str, Any] = {"space": name, "columns": list(part.columns)}
    if isinstance(part, ObservableSpace):
        users = part.observables.function is not None
        return told | {"kind": "observables", "function": users, "version": OBSERVABLES_VERSION}
    if not isinstance(part, Encoder):
        raise TypeError(f"the space '{name}' cannot be described")
    return told | {
        "kind": "learned",
        "file": f"{name}_encoder.onnx",
        "inputs": {
            "particles": "float32 (events, slots, features), in the order of the layout",
            "mask": "bool (events, slots), true where an object is",
        },
        "output": "z: float32 (events, outputs)",
        "encoder": part.settings.model_dump(mode="json"),
        "scaling": {"centre": part.scaling.centre.tolist(), "width": part.scaling.width.tolist()},
    }
