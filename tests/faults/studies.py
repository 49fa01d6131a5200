"""Study files that cannot be: a wrong value for every key, and texts that are no study."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from faults.fault import RUN, Fault, study_with, writing
from faults.world import STUDY

#: Key of the study, a value that it cannot have, and what the sentence has to name beside the key.
VALUES: tuple[tuple[str, Any, str], ...] = (
    ("seed", -1, "seed"),
    ("seed", "five", "seed"),
    ("seed", 1.5, "seed"),
    ("seed", None, "seed"),
    ("sead", 1, "sead"),
    ("source.kind", "collisions", "latent or pools or events"),
    ("source.background", {}, "files or simulate"),
    ("source.background.simulate", 0, "simulate"),
    ("source.background.simulate", 100, "simulate.*splits"),
    ("source.background.simulate", "1e99", "simulate"),
    ("source.background.engine", "herwig", "engine"),
    ("source.background.lepton_filter", -1, "lepton_filter"),
    ("source.background.lepton_filter", float("nan"), "lepton_filter"),
    ("source.background.lepton_filter", 1e6, "lepton_filter|filter"),
    ("source.background.weights", "w", r"weights: there is no such key(?!.*weight_decay)"),
    ("source.signals.a4l.simulate", 10, "signals.a4l.simulate"),
    ("source.signals.background", {"simulate": 100}, "name is taken"),
    ("source.signals", {"nothing4l": {"simulate": 100}}, "a4l|nothing4l"),
    ("source.systematics", [], "systematics"),
    ("source.systematics", [{"name": "jet_energy_scal"}], "unknown systematic 'jet_energy_scal'"),
    ("source.systematics", [{"name": "jet_energy_scale", "sigma": 0}], "sigma"),
    ("source.systematics", [{"name": "jet_energy_scale", "sigma": "nan"}], "sigma"),
    ("source.systematics", [{"name": "jet_energy_scale", "siggma": 1}], "siggma"),
    ("source.systematics", [{"name": "normalisation", "function": "shifts:stretch", "sigma": 1}], "taken"),
    ("source.systematics", [{"name": "stretch", "function": "shifts", "sigma": 1}], "module:function"),
    ("source.systematics", [{"name": "stretch", "function": "shifts:stretched", "sigma": 1}], "no function"),
    ("source.systematics", [{"name": "stretch", "function": "shift:stretch", "sigma": 1}],
     "'shift' cannot be"),
    ("source.systematics", [{"name": "stretch", "function": "shifts:np", "sigma": 1}], "no function 'np'"),
    ("source.systematics", [{"name": "\x1b[31mred\x1b[0m"}], r"^(?!.*\x1b).*name"),
    ("source.systematics", [{"name": "jet_energy_scale"}, {"name": "jet_energy_scale"}], "twice|nuisances"),
    ("source.cuts.object_minimum", {"tau": 20}, "tau"),
    ("source.cuts.object_minimum", {"jet": -20}, "jet"),
    ("source.cuts.trigger", ["tau"], "tau"),
    ("source.cuts.trigger_minimum", 1e6, "none of .* passes source.cuts"),
    ("source.cuts.trigger_minimum", 60, "pool|reference|data|cuts"),
    ("source.splits.encoder", 10, "encoder"),
    ("source.splits.reference", 100, "reference"),
    ("source.splits.data", 100, "data"),
    ("source.splits.basis", 0, "basis"),
    ("source.splits.pools", 100, "pools"),
    ("source.spaces", {}, "spaces"),
    ("source.spaces.covariant.alpha", -1, "alpha"),
    ("source.spaces", {"../../evil": {"alpha": 1}}, "spaces"),
    ("source.encoder.width", 7, "width"),
    ("source.encoder.heads", 0, "heads"),
    ("source.encoder.outputs", 0, "outputs"),
    ("source.encoder.outputs", 1e12, "outputs"),
    ("source.encoder.layers", -1, "layers"),
    ("source.training.steps", 0, "steps"),
    ("source.training.batch", 10**9, "batch"),
    ("source.training.learning_rate", 0, "learning_rate"),
    ("source.training.learning_rate", float("inf"), "learning_rate"),
    ("source.training.validation_share", 1, "validation_share"),
    ("source.training.contrast_on", "y", "contrast_on"),
    ("source.training.ratio_hidden", [0], "ratio_hidden"),
    ("source.training.temperature", 0, "temperature"),
    ("source.folds", 0, "folds"),
    ("source.fold", 1, "fold"),
    ("source.response.hidden", [-8], "hidden"),
    ("source.response.epochs", 0, "epochs"),
    ("source.response.fits", 0, "fits"),
    ("sizes.expected", 0, "expected"),
    ("sizes.expected", float("nan"), "expected"),
    ("sizes.expected", 5000, "splits.data"),
    ("sizes.reference", 5000, "splits.reference"),
    ("normalisation", 0, "normalisation"),
    ("normalisation", -0.1, "normalisation"),
    ("tests", {}, "at least one"),
    ("tests.network.clip", "tuned", "tune"),
    ("tests.network.clip", 0, "clip"),
    ("tests.network.hidden", [], "hidden"),
    ("tests.network.hidden", [10**7, 10**7], "hidden"),
    ("tests.network.starts", 0, "starts"),
    ("tests.network.hops", -1, "hops"),
    ("tests.convex.bumps", 0, "bumps"),
    ("tests.convex.bumps", 10**9, "bumps"),
    ("tests.convex.capacity", 6, "capacity"),
    ("tests.convex.capacity", 0.5, "capacity"),
    ("tests.convex.spread", 0, "spread"),
    ("tests.neural", {}, "neural"),
    ("configurations", [], "configurations"),
    ("configurations", [{"space": "other"}], "other"),
    ("configurations", [{"space": "covariant"}, {"space": "covariant"}], "both"),
    ("configurations", [{"space": "covariant", "order": 3}], "order"),
    ("configurations", [{"space": "covariant", "treatment": "marginal"}], "treatment"),
    ("configurations", [{"space": "covariant", "toys": 0}], "toys"),
    ("configurations", [{"space": "covariant", "nu": [1]}], "central point"),
    ("nu", [], "nu"),
    ("nu", [1], "central point"),
    ("nu", [0, 0], "twice"),
    ("nu", [[0, 0], [1, 0]], "nuisances"),
    ("nu", [0, "one"], "nu"),
    ("nu", [0, float("inf")], "nu"),
    ("nu", [0, 1e6], "nu|stretch"),
    ("signals", {"lq": [5]}, "signals.lq"),
    ("signals.a4l", [], "a4l"),
    ("signals.a4l", [30, 30], "twice"),
    ("signals.a4l", [-5], "a4l"),
    ("signals.a4l", [0], "a4l"),
    ("toys", 0, "toys"),
    ("toys", 10**9, "toys"),
    ("toys", 2.5, "toys"),
    ("toys", True, "toys"),
    ("cluster", {"system": "pbs", "jobs": 1}, "system"),
    ("cluster", {"system": "slurm", "jobs": 0}, "jobs"),
    ("duplicates", "forbidden", "duplicates"),
)  # fmt: skip


def values() -> Iterator[Fault]:
    """Yield a value that it cannot have for every key of the study."""
    for key, value, says in VALUES:
        yield Fault(f"study: {key} = {str(value)[:80]}", RUN, says, prepare=study_with(key, value))


#: Texts that are no study.
TEXTS: tuple[tuple[str, bytes, str], ...] = (
    ("empty", b"", "mapping"),
    ("a list", b"- seed: 1\n", "mapping"),
    ("a number", b"7\n", "mapping"),
    ("not UTF-8", b"seed: \xff\xfe\n", "study.yaml"),
    ("zeros", bytes(4096), "study.yaml"),
    ("tabs", b"source:\n\tkind: events\n", "YAML"),
    ("1e5 brackets", b"[" * 100_000, "study.yaml"),
    ("1e5 braces", b"{a: " * 100_000, "study.yaml"),
    ("a laughing alias", b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(ord("b"), ord("k"))
    ), "study.yaml"),
    ("an alias of itself", b"seed: &a [*a]\n", "study.yaml"),
    ("a Python object", b"seed: !!python/object/apply:os.getpid []\n", "study.yaml"),
    ("a key twice", b"seed: 1\ntoys: 3\nseed: 2\n", "seed.*lines? (1 and 3|3)"),
    ("a key twice, further down", b"seed: 1\nsource:\n  kind: latent\n\n  kind: pools\n", "kind.*5"),
    ("two documents", b"seed: 1\n---\nseed: 2\n", "study.yaml"),
    ("a merge of nothing", b"<<: 5\nseed: 1\n", r"<<|merge|mapping"),
)  # fmt: skip


def texts() -> Iterator[Fault]:
    """Yield study files that are none."""
    for name, text, says in TEXTS:
        yield Fault(f"study file: {name}", RUN, says, prepare=writing("study.yaml", text))
    merged = yaml.safe_dump(STUDY, sort_keys=False).replace("sizes:\n", "sizes:\n  <<: {reference: 800}\n")
    merged = merged.replace("  reference: 800\nsource", "source")
    done = "merge keys are YAML"
    yield Fault(
        done, (*RUN[:4], "--until", "nothing"), "no stage", prepare=writing("study.yaml", merged.encode())
    )
