"""What a command does in a child of its own: its exit code, what it says, and the numbers that it gives.

The parent has imported covad, so that a command costs what it computes. Worker processes are forked too,
for the same reason; nothing else differs from the command line.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.world import MAIN, QUADRATIC, World

#: A command that takes longer hangs; where many processes share a core, so much the longer.
LIMIT_SECONDS = 60.0
#: Memory that a command may ask for.
LIMIT_BYTES = 8 * 2**30
#: Keys of JSON whose values are times, or digests that times and places enter.
TIMES = frozenset(
    {"seconds", "seconds_per_toy", "core_seconds_left", "draw_seconds", "since", "made_of", "seal"}
)


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is negative after a signal and None where it did not end at all."""

    code: int | None
    said: str
    answer: Any = None

    @property
    def clean(self) -> str:
        """Return what is wrong with the way it ended, whatever it answered; nothing if all is well."""
        if self.code is None:
            return "hangs"
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        if "Traceback (most recent call last)" in self.said:
            return "traceback"
        if self.code not in (0, 2):
            return f"exit code {self.code}"
        return ""


def preload() -> None:
    """Import all of covad, and what its commands import late."""
    import covad

    for module in pkgutil.walk_packages(covad.__path__, "covad."):
        if not module.name.endswith(("__main__", "pythia", "pythia_qcd", "dask")):
            importlib.import_module(module.name)
    for name in (
        "torch.onnx",
        "torch._dynamo",
        "onnxscript",
        "onnxruntime",
        "matplotlib.backends.backend_pdf",
    ):
        importlib.import_module(name)


def run_child(action: Callable[[], Any], scratch: Path, limit: float = LIMIT_SECONDS) -> Outcome:
    """Fork, do the action in the child, and return how it ended; what it returns has to be JSON."""
    said, answer = scratch / "said.txt", scratch / "answer.json"
    for file in (said, answer):
        file.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _become(action, said, answer)
    deadline = time.monotonic() + limit * busy()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Outcome(None, said.read_text(errors="replace"))
        time.sleep(0.005)
    text = said.read_text(errors="replace")
    found = json.loads(answer.read_text()) if answer.exists() else None
    return Outcome(os.waitstatus_to_exitcode(status), text, found)


def busy() -> float:
    """Return how many processes share a core, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _become(action: Callable[[], Any], said: Path, answer: Path) -> None:
    """Turn this process into one that does the action and ends."""
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
        with said.open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        fork = multiprocessing.get_context("fork")
        multiprocessing.get_context = lambda method=None: fork  # type: ignore[assignment]
        found = action()
        code = 0
        answer.write_text(json.dumps(found, default=str))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def covad_command(*arguments: object) -> None:
    """Run the command line in this process; return only after success."""
    from covad.cli.main import main

    sys.argv = ["covad", *map(str, arguments)]
    main()


def _test(world: World, configuration: str) -> Any:
    out = world.path / "answer_test.json"
    covad_command("test", world.run, world.observed, "--configuration", configuration, "--json", out)
    return json.loads(out.read_text())


def _report(world: World) -> Any:
    covad_command("report", world.run)
    summary = json.loads((world.run / "summary.json").read_text())
    pages = [world.run / "report.html", *sorted((world.run / "report").rglob("*"))]
    texts = {
        str(page.relative_to(world.run)): _digest(page)
        for page in pages
        if page.suffix in {".csv", ".tex", ".yaml", ".html", ".pdf"}
    }
    return {"summary": summary, "files": texts}


def _status(world: World) -> Any:
    covad_command("status", world.run, "--json")
    sys.stdout.flush()
    return json.loads((world.path / "said.txt").read_text())


def _inspect(world: World, path: Path) -> Any:
    covad_command("inspect", path)
    sys.stdout.flush()
    return (world.path / "said.txt").read_text()


def _export(world: World) -> Any:
    out = world.path / "exported"
    covad_command("export", world.run, "--out", out)
    return {file.name: _digest(file) for file in sorted(out.iterdir())}


def _summary(world: World) -> Any:
    """Summary and toys as a notebook has them."""
    import covad
    from covad.errors import CovadError

    try:
        run = covad.open_run(world.run)
        found = {
            f"{test} {slug} {nu} {signal}": run.toys(slug, nu, test=test, signal=signal)
            for test in run.tests
            for slug in (MAIN, QUADRATIC)
            for nu in (0.0, 1.0)
            for signal in (None, "a4l")
        }
        toys = {name: {"t": each.t.tolist(), "missing": each.missing} for name, each in found.items()}
        return {"summary": run.summary.to_json(), "toys": toys}
    except CovadError as failure:
        print(f"covad: {failure}", file=sys.stderr)
        sys.exit(2)


def _resume(world: World) -> Any:
    covad_command("run", world.study, "--out", world.run, "--workers", 1)


#: Commands by name, each with the numbers that it answers.
COMMANDS: Mapping[str, Callable[[World], Any]] = {
    "test": lambda world: _test(world, MAIN),
    "test quadratic": lambda world: _test(world, QUADRATIC),
    "report": _report,
    "status": _status,
    "inspect": lambda world: _inspect(world, world.run),
    "inspect events": lambda world: _inspect(world, world.run / "events" / "background_0.h5"),
    "inspect observed": lambda world: _inspect(world, world.observed),
    "export": _export,
    "python": _summary,
    "run": _resume,
}


def outcome(name: str, world: World) -> Outcome:
    """Run a command in a world, and return how it ended, without times and without the place of the world."""
    found = run_child(lambda: COMMANDS[name](world), world.path)
    return Outcome(found.code, placeless(found.said, world), timeless(placeless(found.answer, world)))


def placeless(content: Any, world: World) -> Any:
    """Return text or JSON data in which the world has no place."""
    if isinstance(content, str):
        return content.replace(str(world.path), "WORLD")
    return content if content is None else json.loads(placeless(json.dumps(content), world))


def timeless(content: Any) -> Any:
    """Return JSON data without the values that are times."""
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if key not in TIMES}
    return [timeless(value) for value in content] if isinstance(content, list) else content


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
