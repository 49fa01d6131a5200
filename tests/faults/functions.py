"""Careless functions of users, and modules that changed."""

from __future__ import annotations

from collections.abc import Iterator

from faults.fault import AGAIN, RUN, TEST, Fault, writing
from faults.world import MODULE


def _moved(line: str) -> str:
    """Return a function that does something to a copy of the objects."""
    return f"p = events.particles.copy()\n{line}\nreturn events.with_particles(p)"


def _one_object(value: str) -> str:
    """Return a function that spoils one object of one event, unless the amount is 0."""
    return _moved(f"p[17, 9, 0] = {value} if amount else p[17, 9, 0]")


IN_PLACE = "events.particles[:, 9:, 0] *= 1 + amount\nreturn events"
LEFT = "stretch.*(exit|leave|left|ended)"
#: The body of the function, and what has to be said of it.
FUNCTIONS: tuple[tuple[str, str, str], ...] = (
    ("in place", IN_PLACE, "in place|copy"),
    ("in place by force", f"events.particles.setflags(write=True)\n{IN_PLACE}", "in place|copy|write"),
    ("no identity at 0", _moved("p[:, 9:, 0] *= 1.1 + amount"), "at 0|nu = 0|amount 0|nothing"),
    ("random", _moved("p[:, 9:, 0] *= 1 + amount * np.random.default_rng().uniform()"),
     "twice|same answer|random"),
    ("another order", _moved("p = p[::-1] if amount else p"), "order|row|event"),
    ("events moved by one", _moved("p = np.roll(p, 1, axis=0) if amount else p"),
     "order|row|event|jump|continuous"),
    ("an event forgotten", _moved("p[:, 9:, 0] *= 1 + amount") + "[1:]", "stretch.*(as many|event|row)"),
    ("an event too many", "return events[[0, *range(len(events))]]", "stretch.*(as many|event|row)"),
    ("nothing returned", "pass", "stretch.*(return|Events)"),
    ("an array returned", "return events.particles", "stretch.*(return|Events)"),
    ("NaN", _one_object("np.nan"), "17"),
    ("infinity", _one_object("np.inf"), "17"),
    ("a negative pt", _one_object("-5"), "17"),
    ("no change", "return events", "changes none"),
    ("a jump at 0", _moved("p[:, 9:, 0] *= 1 + 0.3 * np.sign(amount)"), "jump|continuous"),
    ("raises", "raise ValueError('out of order')", "out of order"),
    ("leaves", "import sys\nsys.exit(0)", LEFT),
    ("leaves unless the amount is 0", "import sys\nif amount:\n    sys.exit()\nreturn events", LEFT),
    ("needs a third argument", "return events + missing", "missing"),
)  # fmt: skip
#: Modules that cannot be.
MODULES = (
    ("no Python", "def stretch(events, amount)\n", "shifts"),
    ("leaves", "import sys\nsys.exit(0)\n", "shifts"),
    ("raises", "raise RuntimeError('not today')\n", "not today"),
    ("imports what is not there", "import no_such_package\n", "no_such_package"),
    ("zeros", "\0" * 100, "shifts"),
    ("a function of one argument", "def stretch(events):\n    return events\n", "stretch"),
)


def functions() -> Iterator[Fault]:
    """Yield careless functions, and modules that are not what they were."""
    for name, body, says in FUNCTIONS:
        text = "\n    ".join(["def stretch(events, amount):", *body.splitlines()])
        module = f"import numpy as np\n\n\n{text}\n"
        yield Fault(f"function: {name}", RUN, says, prepare=writing("shifts.py", module.encode()))
    for name, text, says in MODULES:
        yield Fault(f"module: {name}", RUN, says, prepare=writing("shifts.py", text.encode()))
    edited = MODULE.replace("np.exp(amount)", "np.exp(2 * amount)").encode()
    for name, words in (("test", TEST), ("run", AGAIN)):
        change = writing("shifts.py", edited)
        yield Fault(f"module: edited before {name}", words, "systematic|shifts|changed", prepare=change)
        yield Fault(
            f"module: gone before {name}", words, "shifts", prepare=lambda world: world.module.unlink()
        )
