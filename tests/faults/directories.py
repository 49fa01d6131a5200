"""Run directories that somebody has touched, or works in."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faults.fault import AGAIN, TEST, Fault, Prepare, replace, study_with, writing
from faults.world import COVAD, World

#: Where something that is no Dask scheduler answers.
PORT = 47_815


def rewriting(name: str, content: bytes) -> Prepare:
    """Return what gives a file of the run another content."""
    return writing(f"run/{name}", content)


def removing(name: str) -> Prepare:
    """Return what removes a folder of the run."""
    return lambda world: shutil.rmtree(world.run / name)


def other_format(world: World) -> None:
    """A run as another version of covad would leave it, seals and all."""
    from covad.runs.directory import FORMAT

    file = world.run / "study.json"
    content = json.loads(file.read_text())
    content.pop("seal", None)
    content["format"] = FORMAT - 1
    file.unlink()
    try:
        from covad.storage.sealed import write_sealed
    except ImportError:
        file.write_text(json.dumps(content))
    else:
        write_sealed(file, content)


def other_schema(world: World) -> None:
    """Blocks of toys of another version."""
    from covad.toys.blocks import STORE_SCHEMA

    for file in (world.run / "toys").glob("*.parquet"):
        content = file.read_bytes().replace(b'"schema":%d' % STORE_SCHEMA, b'"schema":9')
        replace(file, content)


def _exchange(first: Path, second: Path) -> None:
    contents = first.read_bytes(), second.read_bytes()
    replace(first, contents[1])
    replace(second, contents[0])


def exchanged_encoders(world: World) -> None:
    models = world.run / "models"
    _exchange(*(models / name / "fold_0" / "encoder.safetensors" for name in ("covariant", "contrastive")))


def exchanged_pools(world: World) -> None:
    pools = world.run / "pools"
    for file in (pools / "contrastive_linear").iterdir():
        _exchange(file, pools / "covariant_linear" / file.name)


def encoder_as_response(world: World) -> None:
    folder = world.run / "models" / "covariant" / "fold_0"
    replace(folder / "response_1.safetensors", (folder / "encoder.safetensors").read_bytes())


def exchanged_toys(world: World) -> None:
    """The blocks of every ensemble under the name of the next one."""
    blocks = sorted((world.run / "toys").glob("*-00000000-00000010.parquet"))
    contents = [block.read_bytes() for block in blocks]
    for block, content in zip(blocks, [*contents[1:], contents[0]], strict=True):
        replace(block, content)


def read_only(world: World) -> None:
    """A run on a disk that cannot be written to; its rights suffice where nobody is root."""
    if os.geteuid() == 0:
        run = str(world.run)
        subprocess.run(["mount", "--bind", run, run], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", run], check=True)
    for folder, _, _ in os.walk(world.run):
        with suppress(OSError):
            Path(folder).chmod(0o555)


def locked(world: World) -> None:
    """Another process learns in the same directory: the study of the run, from its beginning."""
    shutil.rmtree(world.run)
    words = [*COVAD, "run", str(world.study), "--out", str(world.run), "--workers", "1"]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    (world.path / "first.pid").write_text(str(process.pid))
    for _ in range(1200):
        if (world.run / "events.json").exists():
            return
        time.sleep(0.05)
    raise TimeoutError("the first run has not begun")


class _Chatter(socketserver.BaseRequestHandler):
    """What a web server says to whoever it does not understand."""

    def handle(self) -> None:
        self.request.recv(100)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def answering(world: World) -> None:
    """Something else than a Dask scheduler listens, and toys are missing."""
    shutil.rmtree(world.run / "toys")
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    server = socketserver.ThreadingTCPServer(("127.0.0.1", PORT), _Chatter)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def release(path: Path) -> None:
    """End the process that a fault has left at work, and let the copy be removed."""
    if str(path / "run") in Path("/proc/mounts").read_text().split():
        subprocess.run(["umount", str(path / "run")], check=True)
    for folder, _, _ in os.walk(path / "run"):
        Path(folder).chmod(0o755)
    pid = path / "first.pid"
    if pid.exists():
        with suppress(ProcessLookupError):
            os.killpg(int(pid.read_text()), signal.SIGKILL)


def run_directories() -> Iterator[Fault]:
    """Yield run directories that somebody has touched."""
    report, status, export = ("report", "{run}"), ("status", "{run}"), ("export", "{run}")
    told: tuple[tuple[str, tuple[str, ...], str, Prepare], ...] = (
        ("nobody at the Dask address", (*AGAIN, "--dask", "tcp://127.0.0.1:9"), "127.0.0.1:9",
         removing("toys")),
        ("no Dask address", (*AGAIN, "--dask", "nonsense"), "nonsense", removing("toys")),
        ("something else at the Dask address", (*AGAIN, "--dask", f"tcp://127.0.0.1:{PORT}"),
         str(PORT), answering),
        ("checks are {}", report, "checks", rewriting("checks/covariant_linear.json", b"{}")),
        ("checks are a list", report, "checks", rewriting("checks/covariant_linear.json", b"[]")),
        ("the basis is {}", TEST, "basis|tune", rewriting("basis/covariant-profiled.json", b"{}")),
        ("the basis is null", TEST, "basis|tune", rewriting("basis/covariant-profiled.json", b"null")),
        ("the clip is {}", TEST, "clip|tune", rewriting("clip/covariant-profiled.json", b"{}")),
        ("the clip is a number", TEST, "clip", rewriting("clip/covariant-profiled.json", b"5")),
        ("study.json is {}", TEST, "study.json", rewriting("study.json", b"{}")),
        ("study.json is 1e5 brackets", status, "study.json", rewriting("study.json", b"[" * 100_000)),
        ("events.json is {}", TEST, "events", rewriting("events.json", b"{}")),
        ("summary.json is 1e5 brackets", (*TEST[:2], "{folder}/none.h5"), "none.h5",
         rewriting("summary.json", b"[" * 100_000)),
        ("a run of another version", TEST, "version", other_format),
        ("a run of another version, status", status, "version", other_format),
        ("a run of another version, run", AGAIN, "version", other_format),
        ("blocks of another schema", TEST, "schema|damaged|version|toys", other_schema),
        ("the encoder of another embedding", TEST, "encoder", exchanged_encoders),
        ("the encoder of another embedding, export", export, "encoder", exchanged_encoders),
        ("the pools of another space", TEST, "pools|reference|toys", exchanged_pools),
        ("an encoder in place of a response", TEST, "response", encoder_as_response),
        ("toys of one ensemble as another's", TEST, "toys|damaged", exchanged_toys),
        ("models gone, pools there", TEST, "spaces", removing("models")),
        ("pools gone", TEST, "pools", removing("pools")),
        ("toys gone", TEST, "toys", removing("toys")),
        ("events gone", TEST, "events|background", removing("events")),
        ("another seed in the study file", AGAIN, "seed", study_with("seed", 6)),
        ("another sigma in the study file", AGAIN, "sigma|systematics", study_with(
            "source.systematics", [{"name": "stretch", "function": "shifts:stretch", "sigma": 0.06}])),
        ("other steps in the study file", AGAIN, "steps", study_with("source.training.steps", 7)),
    )  # fmt: skip
    for name, words, says, prepare in told:
        yield Fault(f"run: {name}", words, says, prepare=prepare)
    # an answer that the run does not have yet
    yield Fault("run: read-only", (*TEST, "--expected", "210"), "not stored in the run", 0, read_only)
    yield Fault("test ends with one answer", TEST, r"result: p = \S+, Z (=|>=|<=) \S+ \([^()]*\)$", 0)
    dry = ("run", "{study}", "--out", "{run}", "--dry-run")
    yield Fault("run: dry run after other sizes", dry, "keep.*(redo|anew|made)|(redo|anew).*ke[ep]p?t?", 0,
                study_with("nu", [0, 1, -1]))  # fmt: skip
    stages = r"events.*encoder.*response.*checks.*pools.*tune.*toys"
    yield Fault("status lists all stages", status, stages, 0)
    # the first words of a program that nobody can read
    odd = r"\('covariant', 1\)|loss \[|0\.0 min left|Warning:"
    anew = ("run", "{study}", "--out", "{folder}/new", "--workers", "1")
    yield Fault(
        "run: no odd words while it runs", anew, rf"^(?!.*({odd})).*computed 520 toys", 0, seconds=300
    )
    yield Fault("run: a second one while the first learns", AGAIN, "host|another|process", prepare=locked)
