"""Small text files of users and of runs, read in one piece; anything else at the path is refused at once."""

from __future__ import annotations

import stat
from pathlib import Path

from covad.errors import DamagedFileError

#: No study file and no JSON of a run comes near this.
LARGEST_BYTES = 256 * 2**20


def read_text(path: Path, largest_bytes: int = LARGEST_BYTES) -> str:
    """Return the text of a regular file; raise DamagedFileError for anything else, before it is read.

    A device, a pipe or a file of many gigabytes would never end or fill the memory. FileNotFoundError passes:
    that a file is not there is often no failure.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise DamagedFileError(f"{path}: is a directory, not a file: name a file")
        if not stat.S_ISREG(found.st_mode):
            raise DamagedFileError(f"{path}: is not a regular file: name one")
        if found.st_size > largest_bytes:
            raise DamagedFileError(
                f"{path}: has {found.st_size} bytes, more than the {largest_bytes} that such a file may have"
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as failure:
        raise DamagedFileError(f"{path}: cannot be read, it is not text in UTF-8 ({failure})") from failure
    except OSError as failure:
        raise DamagedFileError(f"{path}: cannot be read ({failure.strerror or failure})") from failure
