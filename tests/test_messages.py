"""What people see on stderr while covad works."""

import logging
import re
import subprocess
import sys

import pytest
from finished_run import make_run

from covad.messages import duration_text

TALKATIVE = """
import logging, sys, warnings
from covad.messages import hide_library_warnings, show_messages
from covad.parallel import run_jobs

def work():
    logging.getLogger("covad.room").info("a line of a worker")
    logging.getLogger("matplotlib.font_manager").warning("building the font cache")
    warnings.warn("deprecated, says a library")

if __name__ == "__main__":
    hide_library_warnings()
    show_messages()
    show_messages()
    work()
    run_jobs(work, [()], 1)
"""


def test_libraries_are_silent_here_and_in_workers(tmp_path):
    script = tmp_path / "talkative.py"
    script.write_text(TALKATIVE)
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert result.stderr == "covad: a line of a worker\n" * 2
    asked = subprocess.run(
        [sys.executable, "-Wdefault", str(script)], capture_output=True, text=True, check=True
    )
    assert asked.stderr.count("deprecated, says a library") == 2 * 2  # the warning and its line of code


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (42.4, "42 s"), (89, "89 s"), (91, "2 min"), (3600, "60 min"), (7790, "2 h 10 min")],
)
def test_times_are_told_as_people_do(seconds, text):
    assert duration_text(seconds) == text


def test_a_run_speaks_the_words_of_the_docs(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="covad")
    make_run(tmp_path, until="pools")
    said = caplog.messages
    for line in (
        "stage events: 1 file to simulate",
        "stage spaces: 1 encoder to train",
        "stage response: 2 responses to fit",
        "stage checks: 2 responses to check on fresh events",
        "stage pools: events of 2 spaces to embed",
    ):
        assert line in said
    assert any(
        re.match(r"encoder covariant: step 4 of 4, L_supCL \d\.\d+, L_cov 0\.\d+$", line) for line in said
    )
    assert any(line.startswith("response of covariant, quadratic: ") for line in said)
    assert any(
        re.match(r"closure reach of covariant, linear: closes up to .* over the prior", line) for line in said
    )
    # four steps teach nothing, and that is said then and there
    (warning,) = (line for line in said if "L_cov has learned nothing beyond chance" in line)
    assert warning.startswith("encoder covariant: ")
    for line in said:
        assert not re.search(r"\[|\('|0\.0 min|fold", line), line
