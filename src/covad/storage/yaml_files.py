"""YAML files of users: read safely, and every mistake in them is one sentence."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from covad.errors import FileFormatError
from covad.storage.text_files import read_text

#: Larger files are nothing that people write.
_LARGEST_BYTES = 2**20
#: Values in a file, those that an alias repeats counted each time.
_MOST_VALUES = 100_000
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key that stands twice, where the standard would let the last one win.

    A key of its own beside a merged one (`<<: *common`) is no repetition: it goes before the merged one.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            key = "<<" if key_node.tag == _MERGE else self.construct_object(key_node, deep=deep)
            if not isinstance(key, Hashable):  # refused by YAML itself
                continue
            line = key_node.start_mark.line + 1
            if key in lines:
                raise FileFormatError(
                    f"key '{key}' stands twice, in line {lines[key]} and in line {line}: remove one"
                )
            lines[key] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file; raise FileFormatError if it is none. FileNotFoundError passes."""
    return parse_yaml(read_text(path, _LARGEST_BYTES), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Return the content of a YAML text; `where` names it in messages."""
    try:
        content = yaml.load(text, _Loader)  # noqa: S506, it is a SafeLoader
    except FileFormatError as failure:
        raise FileFormatError(f"{where}: {failure}") from failure
    except RecursionError as failure:
        raise FileFormatError(
            f"{where}: cannot be read, its YAML is nested too deeply: write it flatter"
        ) from failure
    except (yaml.YAMLError, ValueError) as failure:  # a date of month 13 is a ValueError
        raise FileFormatError(f"{where}: is not YAML ({' '.join(str(failure).split())})") from failure
    _refuse_endless(content, where)
    return content


def _refuse_endless(content: Any, where: str) -> None:
    """Raise FileFormatError if aliases make a small file a huge or an endless one."""
    waiting, seen = [content], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        if seen + len(waiting) > _MOST_VALUES:
            raise FileFormatError(
                f"{where}: has more than {_MOST_VALUES} values, aliases (*NAME) written out: ask for less"
            )
