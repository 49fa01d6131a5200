"""Mistakes that people make and inputs that an attacker would try, each with the sentence that has to come.

A fault is data: what is done to a copy of the world, the command, its exit code and a pattern that its words
have to match. `{run}`, `{study}`, `{observed}`, `{folder}` stand for the paths of the copy.
"""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml
from faults import files
from faults.outcome import Outcome, covad_command, run_child
from faults.world import MODULE, STUDY, World

REFUSED = 2
Prepare = Callable[[World], None]
#: A study of files needs the run's own event files, under names of its own.
RUN = ("run", "{study}", "--out", "{folder}/new", "--until", "events", "--workers", "1")
TEST = ("test", "{run}", "{observed}")


@dataclass(frozen=True)
class Fault:
    """What is done, and what has to be said."""

    name: str
    command: tuple[str, ...]
    says: str
    code: int = REFUSED
    prepare: Prepare | None = None


@dataclass(frozen=True)
class Result:
    """How a fault ended."""

    fault: Fault
    outcome: Outcome

    @property
    def ok(self) -> bool:
        said = " ".join(self.outcome.said.split())
        ended = not self.outcome.clean and self.outcome.code == self.fault.code
        return ended and re.search(self.fault.says, said, re.IGNORECASE) is not None

    def __str__(self) -> str:
        if self.ok:
            return f"OK      {self.fault.name}"
        how = self.outcome.clean or f"exit code {self.outcome.code}"
        last = self.outcome.said.strip().rpartition("\n")[2][-250:]
        return f"not OK  {self.fault.name}: {how}, expected {self.fault.code} and '{self.fault.says}': {last}"


def options() -> Iterator[Fault]:
    """Yield commands with options and arguments that cannot be."""
    told: tuple[tuple[str, str, str], ...] = (
        ("no such command", "tset {run} {observed}", "no such command"),
        ("no such option", "test {run} {observed} --expect 5", "no such option"),
        ("an argument too many", "test {run} {observed} {observed}", "unexpected"),
        ("no observed file given", "test {run}", "missing argument"),
        ("no such run", "test {folder}/nowhere {observed}", "nowhere.*not a run directory"),
        ("a file as run", "test {observed} {observed}", "observed.h5"),
        ("an empty folder as run", "test {folder}/empty {observed}", "not a run directory"),
        ("no such observed file", "test {run} {folder}/none.h5", "none.h5"),
        ("a folder as observed file", "test {run} {run}", "is a directory"),
        ("a device as observed file", "test {run} /dev/zero", "not a regular file"),
        ("the study file as observed file", "test {run} {study}", "neither"),
        ("expected 0", "test {run} {observed} --expected 0", "positive"),
        ("expected negative", "test {run} {observed} --expected -5", "positive"),
        ("expected nan", "test {run} {observed} --expected nan", "positive"),
        ("expected inf", "test {run} {observed} --expected inf", "positive"),
        ("expected no number", "test {run} {observed} --expected many", "not a valid float"),
        ("auxiliary without a value", "test {run} {observed} --auxiliary stretch", "NAME=VALUE"),
        ("auxiliary without a name", "test {run} {observed} --auxiliary =1", "NAME=VALUE"),
        ("auxiliary no number", "test {run} {observed} --auxiliary stretch=one", "NAME=VALUE"),
        ("auxiliary nan", "test {run} {observed} --auxiliary stretch=nan", "NAME=VALUE"),
        ("auxiliary inf", "test {run} {observed} --auxiliary stretch=inf", "NAME=VALUE"),
        ("auxiliary of no nuisance", "test {run} {observed} --auxiliary pileup=1", "no nuisance 'pileup'"),
        ("auxiliary twice", "test {run} {observed} --auxiliary stretch=1 --auxiliary stretch=2", "twice"),
        ("auxiliary 1e9", "test {run} {observed} --auxiliary stretch=1e9", "stretch"),
        ("auxiliary -1e9", "test {run} {observed} --auxiliary stretch=-1e9", "stretch"),
        ("auxiliary of the yield 1e9", "test {run} {observed} --auxiliary normalisation=1e9", "normalisation"),
        ("auxiliary 1e300", "test {run} {observed} --auxiliary stretch=1e300", "stretch"),
        ("no such configuration", "test {run} {observed} --configuration best", "no configuration 'best'"),
        ("the answer into no folder", "test {run} {observed} --json {folder}/none/a.json", "cannot be written"),
        ("the answer onto a folder", "test {run} {observed} --json {run}", "cannot be written|directory"),
        ("an event file of the run", "test {run} {run}/events/background_0.h5", "of the run itself"),
        ("a signal file of the run", "test {run} {run}/events/a4l_0.h5", "of the run itself|a4l"),
        ("no such study file", "run {folder}/none.yaml --out {folder}/new", "none.yaml"),
        ("a folder as study file", "run {folder} --out {folder}/new", "cannot be read"),
        ("a device as study file", "run /dev/zero --out {folder}/new", "/dev/zero"),
        ("an event file as study file", "run {observed} --out {folder}/new", "observed.h5"),
        ("a file as run directory", "run {study} --out {observed}", "observed.h5"),
        ("a run below a file", "run {study} --out {observed}/run", "observed.h5"),
        ("no such stage", "run {study} --out {folder}/new --until fits", "no stage 'fits'"),
        ("no workers", "run {study} --out {folder}/new --workers 0", "workers"),
        ("negative workers", "run {study} --out {folder}/new --workers -1", "workers"),
        ("workers no number", "run {study} --out {folder}/new --workers two", "workers"),
        ("shard 0/3", "run {study} --out {folder}/new --shard 0/3", "shard"),
        ("shard 3/2", "run {study} --out {folder}/new --shard 3/2", "shard"),
        ("shard 1/0", "run {study} --out {folder}/new --shard 1/0", "shard"),
        ("shard a/b", "run {study} --out {folder}/new --shard a/b", "shard"),
        ("a shard before the learning", "run {study} --out {folder}/new --shard 1/2", "--until tune"),
        ("report of no run", "report {folder}/empty", "not a run directory"),
        ("report of a file", "report {observed}", "observed.h5"),
        ("status of no run", "status {folder}/empty", "not a run directory"),
        ("status of nothing", "status {folder}/nowhere", "not a run directory"),
        ("export of no run", "export {folder}/empty", "not a run directory"),
        ("export onto a file", "export {run} --out {observed}", "cannot be written"),
        ("inspect nothing", "inspect {folder}/none.h5", "none.h5"),
        ("inspect a folder", "inspect {folder}/empty", "is a directory"),
        ("inspect a device", "inspect /dev/zero", "not a regular file"),
        ("inspect text", "inspect {study}", "neither"),
        ("inspect by no systematic", "inspect {observed} --systematic tilt", "unknown systematic 'tilt'"),
        ("inspect no collection", "inspect {observed} --collection tau", "no collection 'tau'"),
        ("inspect with labels", "inspect {observed} --labels {observed}", "labels"),
        ("inspect with study and systematic",
         "inspect {observed} --study {study} --systematic jet_energy_scale", "exclude"),
        ("inspect with no study", "inspect {observed} --study {folder}/none.yaml", "none.yaml"),
        ("inspect against nothing", "inspect {observed} --study {study} --against {folder}/none.h5", "none.h5|study"),
        ("a preset that is none", "init {folder}/new.yaml --preset huge", "huge"),
        ("init over a file", "init {study}", "study.yaml"),
        ("simulate no process", "simulate --process higgs --events 10 --out {folder}/x.h5", "higgs"),
        ("simulate no events", "simulate --process w --events 0 --out {folder}/x.h5", "events?"),
        ("simulate -1 events", "simulate --process w --events -1 --out {folder}/x.h5", "events?"),
        ("simulate by no engine", "simulate --process w --events 9 --engine herwig --out {folder}/x.h5", "herwig"),
        ("simulate below a file", "simulate --process w --events 9 --out {observed}/x.h5", "cannot be written"),
        ("simulate with a filter nan",
         "simulate --process w --events 9 --lepton-filter nan --out {folder}/x.h5", "filter"),
        ("simulate with a negative filter",
         "simulate --process w --events 9 --lepton-filter -3 --out {folder}/x.h5", "filter"),
        ("simulate with pile-up below 0",
         "simulate --process w --events 9 --pileup-jets -3 --out {folder}/x.h5", "pile"),
        ("fetch no sample", "fetch adc2021 --sample dijets --out {folder}/data", "dijets"),
    )  # fmt: skip
    for name, words, says in told:
        yield Fault(name, tuple(words.split()), says, prepare=_empty_folder)


def _empty_folder(world: World) -> None:
    (world.path / "empty").mkdir()


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
    ("source.systematics", [{"name": "stretch", "function": "shift:stretch", "sigma": 1}], "'shift' cannot be"),
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
    ("source.embeddings", {}, "embeddings"),
    ("source.embeddings.covariant.alpha", -1, "alpha"),
    ("source.embeddings", {"../../evil": {"alpha": 1}}, "embeddings"),
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
    ("configurations", [{"embedding": "other"}], "other"),
    ("configurations", [{"embedding": "covariant"}, {"embedding": "covariant"}], "both"),
    ("configurations", [{"embedding": "covariant", "order": 3}], "order"),
    ("configurations", [{"embedding": "covariant", "treatment": "marginal"}], "treatment"),
    ("configurations", [{"embedding": "covariant", "toys": 0}], "toys"),
    ("configurations", [{"embedding": "covariant", "nu": [1]}], "central point"),
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
        yield Fault(f"study: {key} = {str(value)[:40]}", RUN, says, prepare=_study_with(key, value))


def changed_study(key: str, value: Any) -> dict[str, Any]:
    """Return the study with another value of one key."""
    study = copy.deepcopy(STUDY)
    part: Any = study
    *path, last = key.split(".")
    for name in path:
        part = part.setdefault(name, {})
    part[last] = value
    return study


def _study_with(key: str, value: Any) -> Prepare:
    def prepare(world: World) -> None:
        world.study.write_text(yaml.safe_dump(changed_study(key, value), sort_keys=False))

    return prepare


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
        yield Fault(f"study file: {name}", RUN, says, prepare=_writing("study.yaml", text))
    merged = yaml.safe_dump(STUDY, sort_keys=False).replace("sizes:\n", "sizes:\n  <<: {reference: 800}\n")
    merged = merged.replace("  reference: 800\nsource", "source")
    done = "merge keys are YAML"
    yield Fault(done, (*RUN[:4], "--until", "nothing"), "no stage", prepare=_writing("study.yaml", merged.encode()))


def _writing(name: str, content: bytes) -> Prepare:
    return lambda world: files.replace(world.path / name, content) and None


#: The body of the user's function, and what has to be said of it.
FUNCTIONS: tuple[tuple[str, str | None, str], ...] = (
    ("works in place", "events.particles[:, 5:, 0] *= np.float32(1 + amount)\nreturn events",
     "read-only|in place"),
    ("changes the layout's array", "events.particles.setflags(write=True)\nevents.particles[:, 5:] *= 1 + amount\n"
     "return events", "in place|read-only|write"),
    ("is no identity at 0", "p = events.particles.copy()\np[:, 9:, 0] *= np.float32(1.1 + amount)\n"
     "return events.with_particles(p)", "at 0|nu = 0|amount 0|nothing"),
    ("draws random numbers", "p = events.particles.copy()\n"
     "p[:, 9:, 0] *= np.float32(1 + amount * np.random.default_rng().uniform())\n"
     "return events.with_particles(p)", "twice|same answer|random"),
    ("changes the order", "p = events.particles.copy()\np[:, 9:, 0] *= np.float32(1 + amount)\n"
     "return events.with_particles(p[::-1] if amount else p)", "order|row|event"),
    ("forgets an event", "p = events.particles.copy()\np[:, 9:, 0] *= np.float32(1 + amount)\n"
     "return events.with_particles(p)[1:]", "stretch.*(as many|event|row)"),
    ("returns nothing", "pass", "stretch.*(return|Events)"),
    ("returns an array", "return events.particles", "stretch.*(return|Events)"),
    ("returns NaN", "p = events.particles.copy()\np[17, 9, 0] = np.nan if amount else p[17, 9, 0]\n"
     "return events.with_particles(p)", "17"),
    ("returns infinity", "p = events.particles.copy()\np[17, 9, 0] = np.inf if amount else p[17, 9, 0]\n"
     "return events.with_particles(p)", "17"),
    ("returns negative pt", "p = events.particles.copy()\np[17, 9, 0] = -5 if amount else p[17, 9, 0]\n"
     "return events.with_particles(p)", "17"),
    ("changes nothing", "return events", "changes none"),
    ("jumps", "p = events.particles.copy()\np[:, 9:, 0] *= np.float32(1 + 0.3 * np.sign(amount))\n"
     "return events.with_particles(p)", "jump|continuous"),
    ("raises", "raise ValueError('out of order')", "out of order"),
    ("leaves", "import sys\nsys.exit(0)", "stretch.*(exit|leave|left|ended)"),
    ("leaves at nu = 1 only", "import sys\nif amount:\n    sys.exit()\nreturn events",
     "stretch.*(exit|leave|left|ended)"),
    ("takes one argument", None, "stretch"),
    ("changes other events' objects", "p = np.roll(events.particles, 1, axis=0) if amount else events.particles.copy()\n"
     "return events.with_particles(p)", "order|row|event|jump|continuous"),
)  # fmt: skip


def functions() -> Iterator[Fault]:
    """Yield careless functions of users."""
    for name, body, says in FUNCTIONS:
        head = "def stretch(events, amount):" if body is not None else "def stretch(events):"
        lines = (body or "return events").splitlines()
        text = "\n    ".join([head, *lines])
        module = f"import numpy as np\n\n\n{text}\n"
        yield Fault(f"function: {name}", RUN, says, prepare=_writing("shifts.py", module.encode()))
    for name, text, says in (
        ("module: no Python", "def stretch(events, amount)\n", "shifts"),
        ("module: leaves", "import sys\nsys.exit(0)\n", "shifts"),
        ("module: raises", "raise RuntimeError('not today')\n", "not today"),
        ("module: imports what is not there", "import no_such_package\n", "no_such_package"),
        ("module: zeros", "\0" * 100, "shifts"),
    ):
        yield Fault(name, RUN, says, prepare=_writing("shifts.py", text.encode()))
    yield Fault("module: gone", RUN, "shifts", prepare=lambda world: world.module.unlink())
    edited = MODULE.replace("np.exp(amount)", "np.exp(2 * amount)").encode()
    changed = "systematic|shifts|changed"
    for name, words in (("test", TEST), ("run", ("run", "{study}", "--out", "{run}", "--workers", "1"))):
        yield Fault(f"module: edited before {name}", words, changed, prepare=_writing("shifts.py", edited))
    yield Fault("module: gone before test", TEST, "shifts", prepare=lambda world: world.module.unlink())


def event_files() -> Iterator[Fault]:
    """Yield event files that are not what they seem, as background of a study and as observed file."""
    for name, change, says in files.FOREIGN:
        yield Fault(f"background file: {name}", RUN, says, prepare=files.background(change))
        yield Fault(f"observed file: {name}", TEST, says, prepare=files.observed(change))
    for name, prepare, says in files.SAMPLES:
        yield Fault(f"samples: {name}", RUN, says, prepare=prepare)
    for name, prepare, says in files.SAMPLES_WARNED:
        yield Fault(f"samples: {name}", RUN, says, code=0, prepare=prepare)
    for name, change, says in files.BACKGROUND_ONLY:
        yield Fault(f"background file: {name}", RUN, says, prepare=files.background(change))
    for name, change, says in files.OBSERVED_REFUSED:
        yield Fault(f"observed file: {name}", TEST, says, prepare=files.observed(change))
    for name, change, says in files.OBSERVED_WARNED:
        yield Fault(f"observed file: {name}", TEST, f"warning: .*({says})", code=0, prepare=files.observed(change))


def run_directories() -> Iterator[Fault]:
    """Yield run directories that somebody has touched."""
    report, status, export = ("report", "{run}"), ("status", "{run}"), ("export", "{run}")
    again = ("run", "{study}", "--out", "{run}", "--workers", "1")
    told: tuple[tuple[str, tuple[str, ...], str, Prepare], ...] = (
        ("nobody at the Dask address", (*again, "--dask", "tcp://127.0.0.1:9"), "127.0.0.1:9", files.removing("toys")),
        ("no Dask address", (*again, "--dask", "nonsense"), "nonsense", files.removing("toys")),
        ("something else at the Dask address", (*again, "--dask", f"tcp://127.0.0.1:{files.PORT}"),
         str(files.PORT), files.answering),
        ("checks are {}", report, "checks", files.rewriting("checks/covariant_linear.json", b"{}")),
        ("checks are a list", report, "checks", files.rewriting("checks/covariant_linear.json", b"[]")),
        ("the basis is {}", TEST, "basis|tune", files.rewriting("basis/covariant-profiled.json", b"{}")),
        ("the basis is null", TEST, "basis|tune", files.rewriting("basis/covariant-profiled.json", b"null")),
        ("the clip is {}", TEST, "clip|tune", files.rewriting("clip/covariant-profiled.json", b"{}")),
        ("the clip is a number", TEST, "clip", files.rewriting("clip/covariant-profiled.json", b"5")),
        ("study.json is {}", TEST, "study.json", files.rewriting("study.json", b"{}")),
        ("study.json is 1e5 brackets", status, "study.json", files.rewriting("study.json", b"[" * 100_000)),
        ("events.json is {}", TEST, "events", files.rewriting("events.json", b"{}")),
        ("summary.json is 1e5 brackets", TEST[:1] + ("{run}", "{folder}/none.h5"), "none.h5",
         files.rewriting("summary.json", b"[" * 100_000)),
        ("a run of another version", TEST, "version", files.other_format),
        ("a run of another version, status", status, "version", files.other_format),
        ("a run of another version, run", again, "version", files.other_format),
        ("blocks of another schema", TEST, "schema|damaged|version|toys", files.other_schema),
        ("the encoder of another embedding", TEST, "encoder", files.exchanged_encoders),
        ("the encoder of another embedding, export", export, "encoder", files.exchanged_encoders),
        ("the pools of another space", TEST, "pools|reference|toys", files.exchanged_pools),
        ("an encoder in place of a response", TEST, "response", files.encoder_as_response),
        ("toys of one ensemble as another's", TEST, "toys|damaged", files.exchanged_toys),
        ("models gone, pools there", TEST, "encoder", files.removing("models")),
        ("pools gone", TEST, "pools", files.removing("pools")),
        ("toys gone", TEST, "toys", files.removing("toys")),
        ("events gone", TEST, "events|background", files.removing("events")),
        ("another seed in the study file", again, "seed", _study_with("seed", 6)),
        ("another sigma in the study file", again, "sigma|systematics", _study_with(
            "source.systematics", [{"name": "stretch", "function": "shifts:stretch", "sigma": 0.06}])),
        ("other steps in the study file", again, "steps", _study_with("source.training.steps", 7)),
    )  # fmt: skip
    for name, words, says, prepare in told:
        yield Fault(f"run: {name}", words, says, prepare=prepare)
    read_only = Fault("run: read-only", TEST, "not stored|not kept|cannot be written", 0, files.read_only)
    yield read_only
    yield Fault("test ends with one answer", TEST, r"result: p = \S+, Z (=|>=) \S+$", 0)
    dry = ("run", "{study}", "--out", "{run}", "--dry-run")
    yield Fault("run: dry run after other sizes", dry, "keep.*(redo|anew|made)|(redo|anew).*ke[ep]p?t?", 0,
                _study_with("nu", [0, 1, -1]))  # fmt: skip
    yield Fault("run: a second one while the first learns", again, "host|another|process", prepare=files.locked)


def all_faults() -> list[Fault]:
    """Return every named fault."""
    groups = (options, values, texts, functions, event_files, run_directories)
    return [fault for group in groups for fault in group()]


_shared: dict[str, Any] = {}


def _try(number: int) -> Outcome:
    """Try one fault in a private copy of the world, in a worker process."""
    fault: Fault = all_faults()[number]
    private = _shared["world"].copy(_shared["scratch"] / f"named_{number}")
    names = {
        "folder": private.path,
        "run": private.run,
        "study": private.study,
        "observed": private.observed,
    }
    words = [word.format(**names) for word in fault.command]

    def action() -> None:
        if fault.prepare:
            fault.prepare(private)
        covad_command(*words)

    try:
        return run_child(action, private.path)
    finally:
        files.release(private.path)
        shutil.rmtree(private.path, ignore_errors=True)


def run_faults(world: World, scratch: Path, only: str = "") -> list[Result]:
    """Try all named faults, two at a time, and print a line of each."""
    _shared.update(world=world, scratch=scratch)
    faults = all_faults()
    wanted = [number for number, fault in enumerate(faults) if re.search(only, fault.name)]
    results = []
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        for number, outcome in zip(wanted, pool.map(_try, wanted), strict=True):
            results.append(Result(faults[number], outcome))
            print(results[-1], flush=True)
    bad = sum(not result.ok for result in results)
    print(f"{len(results)} named faults, {bad} not OK", flush=True)
    return results
