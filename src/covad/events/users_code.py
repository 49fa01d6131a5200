"""The code of a user's systematics: found, imported as it is on disk now, and identified by its content."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from covad.errors import CovadError, UnknownNameError
from covad.storage.digests import file_digest

#: Digests of the files that modules were imported from, as they were then.
_imported: dict[Path, str] = {}


def load_function(reference: str, folder: Path | None = None) -> Callable[..., Any]:
    """Return the function that `module:function` names, of the code as it is now.

    Modules in `folder` come first. They are imported again if they, or what they import from there, have
    changed since: a notebook keeps modules for days.
    """
    module_name, function_name = _parts(reference)
    files = {} if folder is None else _reached(module_name, folder)
    if any(_is_stale(name, file) for name, file in files.items()):
        for name in files:
            if name not in sys.stdlib_module_names:
                sys.modules.pop(name, None)
        importlib.invalidate_caches()
    with _importing(module_name), _found_first(folder, files):
        module = importlib.import_module(module_name)
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        raise UnknownNameError(f"module '{module_name}' has no function '{function_name}'")
    return function


def code_digests(reference: str, folder: Path | None = None) -> dict[str, str]:
    """Return the digest of every file behind `module:function`, by the name of its module.

    They are that of the module, and those of modules in `folder` that it imports, directly or not. Imports
    are read from the code, so that the answer does not depend on what this process has loaded.
    """
    module_name, _ = _parts(reference)
    files = {} if folder is None else _reached(module_name, folder)
    if module_name not in files:
        with _importing(module_name), _found_first(folder, files):
            spec = find_spec(module_name)
        if spec is not None and spec.has_location and spec.origin is not None:
            files = {module_name: Path(spec.origin)}
    return {name: file_digest(file) for name, file in sorted(files.items())}


def _parts(reference: str) -> tuple[str, str]:
    module_name, _, function_name = reference.partition(":")
    if not module_name or not function_name:
        raise CovadError(
            f"'{reference}' does not have the form module:function, for instance my_systematics:shift"
        )
    return module_name, function_name


def _reached(module_name: str, folder: Path) -> dict[str, Path]:
    """Return the files in `folder` of a module, its packages, and what they import, by module name."""
    found: dict[str, Path] = {}
    waiting = list(_with_packages(module_name))
    while waiting:
        name = waiting.pop()
        file = _file_of(name, folder)
        if file is not None and name not in found:
            found[name] = file
            for imported in _imports(file, name):
                waiting += _with_packages(imported)
    return found


def _with_packages(name: str) -> Iterator[str]:
    """Yield a, a.b and a.b.c of a.b.c: to import it runs all of them."""
    parts = name.split(".")
    for number in range(1, len(parts) + 1):
        yield ".".join(parts[:number])


def _file_of(name: str, folder: Path) -> Path | None:
    base = folder.absolute().joinpath(*name.split("."))
    files = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imports(file: Path, name: str) -> Iterator[str]:
    """Yield what the code of a module may import, anywhere in it; nothing if it is no Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # importing it says so
        return
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            if origin:
                yield origin
            yield from (f"{origin}.{alias.name}" if origin else alias.name for alias in node.names)


def _is_stale(name: str, file: Path) -> bool:
    """Return whether a loaded module is not what the file holds now."""
    module = sys.modules.get(name)
    if module is None:
        return False
    return not _is_file_of(module, file) or _imported.get(file) != file_digest(file)


def _is_file_of(module: ModuleType, file: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and Path(origin).resolve() == file.resolve()


@contextmanager
def _importing(module_name: str) -> Iterator[None]:
    """Say in one sentence why a module cannot be imported."""
    try:
        yield
    except (Exception, SystemExit) as failure:  # a module that ends the program is no success
        reason = "it ends the program" if isinstance(failure, SystemExit) else " ".join(str(failure).split())
        raise CovadError(
            f"module '{module_name}' cannot be imported: {reason}; it is looked for beside the study file"
        ) from failure


@contextmanager
def _found_first(folder: Path | None, files: Mapping[str, Path]) -> Iterator[None]:
    """Let imports find these modules first, then others in `folder`."""
    if folder is None:
        yield
        return
    finder = _UsersModules(files)
    sys.meta_path.insert(0, finder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.meta_path.remove(finder)


class _UsersModules(MetaPathFinder):
    """Finds the modules of a user by name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        file = self._files.get(fullname)
        if file is None:
            return None
        loader = _FromSource(fullname, str(file))
        return spec_from_file_location(fullname, file, loader=loader)


class _FromSource(SourceFileLoader):
    """Compiles the file as it is: bytecode that Python keeps can be of an edit in the same second."""

    def get_code(self, fullname: str) -> CodeType:
        file = Path(self.get_filename(fullname))
        _imported[file] = file_digest(file)
        source = self.get_data(str(file))
        if file_digest(file) != _imported[file]:
            raise ImportError(f"{file} has changed while it was read; run again")
        code: CodeType = self.source_to_code(source, str(file))
        return code
