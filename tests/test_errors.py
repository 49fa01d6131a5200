"""What the operating system says becomes one sentence that says what to do."""

import errno
import os
import sys

import pytest

from covad.cli import main as command_line
from covad.errors import write_trouble


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "(No space left on device): free some space, or choose another disk"),
        (errno.EACCES, "(Permission denied): choose a folder that you may write to"),
        (errno.EROFS, "(Read-only file system): choose a folder that you may write to"),
        (errno.ENOENT, "(No such file or directory): make its folder first"),
        (errno.EIO, "(Input/output error)"),  # nobody knows what helps
    ],
)
def test_a_file_that_cannot_be_written_is_told_with_its_remedy(number, told, monkeypatch, capsys):
    failure = OSError(number, os.strerror(number), "result.json")
    assert write_trouble(failure) == told

    def fail(**_):
        raise failure

    monkeypatch.setattr(command_line, "commands", fail)
    monkeypatch.setattr(sys, "argv", ["covad"])
    with pytest.raises(SystemExit) as left:
        command_line.main()
    assert left.value.code == 2
    assert capsys.readouterr().err == f"covad: result.json: cannot be read or written {told}\n"
