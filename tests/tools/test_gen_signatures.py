"""``tools/gen_signatures.py``: what it reads from a stub, and the differences that it names."""

import json
from pathlib import Path

import pytest

from nkisim.versions import names_of
from releases import VERSIONS
from scripts import loaded

gen_signatures = loaded(Path(__file__).parents[2] / "tools" / "gen_signatures.py")

STUB = """
from enum import Enum

limit: int = ...
_hidden = ...


class mode(Enum):
    fast = ...
    exact = 2


class Tensor:
    rank: int

    @property
    def size(self) -> int: ...

    def cut(self, dim: int, step: int = 1) -> "Tensor": ...


def copy(dst: Tensor, src, how=mode.fast, where=nl.sbuf, *more, **rest): ...


def fill(dst, value=...): ...


def _private(x): ...
"""


def test_a_stub_gives_names_parameters_and_members():
    found = gen_signatures.surface(STUB)
    assert found == {
        "functions": {
            "copy": "dst, src, how=mode.fast, where=sbuf, *more, **rest",
            "fill": "dst, value=...",
        },
        "classes": {
            "mode": {"members": ["exact", "fast"]},
            "Tensor": {"attributes": ["rank", "size"], "methods": {"cut": "self, dim, step=1"}},
        },
        "names": ["limit"],
    }


def test_a_default_that_is_left_out_is_that_of_the_version_before():
    older = {"m": {"functions": {"fill": "dst, value=-1.5, name=None"}}}
    newer = {"m": {"functions": {"fill": "dst, value=..., name=None"}}}
    gen_signatures.complete(newer, older)
    assert newer == older


def test_differences_are_named_one_by_one():
    older = {"m": {"functions": {"a": "x", "b": "x"}, "names": ["one"]}}
    newer = {"m": {"functions": {"a": "x, y=0", "c": "z"}, "names": ["one", "two"]}}
    assert gen_signatures.differences(older, newer) == [
        "- m.functions.a(x)",
        "+ m.functions.a(x, y=0)",
        "- m.functions.b(x)",
        "+ m.functions.c(z)",
        "+ m.names: two",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_file_of_a_version_is_in_the_form_of_the_script(version):
    file = gen_signatures.FOLDER / f"{version}.json"
    found = names_of(version)
    assert file.read_text() == json.dumps(found, indent=1, sort_keys=True) + "\n"
    assert set(found) == set(gen_signatures.MODULES)
    assert not [t for m in found.values() for t in m["functions"].values() if "..." in t]
