import re

import pytest

from covad.toys import progress
from covad.toys.progress import toy_progress


@pytest.fixture(autouse=True)
def logged(caplog):
    caplog.set_level("INFO", logger="covad")


def test_a_log_gets_a_line_with_rate_and_time_left(monkeypatch, caplog):
    monkeypatch.setattr(progress, "LINE_EVERY_SECONDS", -1.0)
    with toy_progress(100) as toys:
        toys.started -= 10.0
        toys.advance(10, 0)
        toys.advance(10, 3)
    first, second = caplog.messages
    assert re.fullmatch(r"toys: 10 of 100, (1|0\.99\d*) toys/s, about (90 s|2 min) left", first)
    assert re.fullmatch(r"toys: 20 of 100, (2|1\.99\d*) toys/s, 3 failed, about 40 s left", second)


def test_lines_are_rare(caplog):
    with toy_progress(100) as toys:
        for _ in range(10):
            toys.advance(10, 0)
    assert caplog.messages == []


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with toy_progress(20) as toys:
        toys.advance(20, 1)
    said = capsys.readouterr()
    assert said.out == ""
    assert "20/20" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.err)
    assert "1 failed" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.err)
