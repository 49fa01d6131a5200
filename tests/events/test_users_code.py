"""The code of a user's systematics: which files it is, and that what runs is what they hold."""

import functools
import sys

import pytest

from covad.events.users_code import code_digests, load_function

HELPERS = (
    "import functools\n"
    "def logged(function):\n"
    "    @functools.wraps(function)\n"
    "    def call(*arguments):\n"
    "        return function(*arguments)\n"
    "    return call\n"
    "FACTOR = 1\n"
)


@pytest.fixture
def folder(tmp_path):
    """A decorated function, whose helpers lie beside it, one of them in a package."""
    (tmp_path / "covad_users_shifts.py").write_text(
        "from covad_users_helpers import FACTOR, logged\nimport numpy\n\n"
        "@logged\ndef shift(events, amount):\n    from covad_users_kit.deep import DEEP\n    return FACTOR\n"
    )
    (tmp_path / "covad_users_helpers.py").write_text(HELPERS)
    (tmp_path / "covad_users_kit").mkdir()
    (tmp_path / "covad_users_kit" / "__init__.py").write_text("")
    (tmp_path / "covad_users_kit" / "deep.py").write_text("from .deeper import DEEP\n")
    (tmp_path / "covad_users_kit" / "deeper.py").write_text("DEEP = 1\n")
    (tmp_path / "covad_users_other.py").write_text("")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("covad_users_")]:
        del sys.modules[name]


def digests(folder):
    return code_digests("covad_users_shifts:shift", folder)


def test_the_code_is_the_module_and_what_it_imports_from_its_folder(folder):
    before = digests(folder)
    names = ["helpers", "kit", "kit.deep", "kit.deeper", "shifts"]
    assert list(before) == [f"covad_users_{name}" for name in names]
    load_function("covad_users_shifts:shift", folder)
    assert digests(folder) == before  # whatever is loaded


@pytest.mark.parametrize("file", ["shifts.py", "helpers.py", "kit/__init__.py", "kit/deeper.py"])
def test_an_edit_of_any_of_its_files_is_noticed(folder, file):
    before = digests(folder)
    path = folder / f"covad_users_{file}"
    path.write_text(path.read_text() + "# edited\n")
    assert digests(folder) != before


def test_a_file_that_it_does_not_import_is_not_its_code(folder):
    before = digests(folder)
    (folder / "covad_users_other.py").write_text("x = 1\n")
    assert digests(folder) == before


def test_a_partial_and_a_module_elsewhere_have_code_too(folder):
    (folder / "covad_users_partial.py").write_text(
        "import functools\ndef f(k, events, amount):\n    return k\nshift = functools.partial(f, 3)\n"
    )
    function = load_function("covad_users_partial:shift", folder)
    assert isinstance(function, functools.partial)
    assert list(code_digests("covad_users_partial:shift", folder)) == ["covad_users_partial"]
    assert list(code_digests("functools:partial", folder)) == ["functools"]


def test_an_edited_helper_is_imported_again_even_within_a_second(folder):
    """The edits have the same size: by time and size Python's bytecode cannot tell them apart."""
    for number in (1, 2, 3):
        (folder / "covad_users_helpers.py").write_text(HELPERS.replace("FACTOR = 1", f"FACTOR = {number}"))
        sys.path.insert(0, str(folder))
        try:
            assert load_function("covad_users_shifts:shift", folder)(None, 0.0) == number
        finally:
            sys.path.remove(str(folder))
