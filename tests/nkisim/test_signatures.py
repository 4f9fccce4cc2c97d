"""The public surface is that of NKI 0.3.0: names, parameters, order, defaults, members."""

import inspect
import json
from enum import Enum
from pathlib import Path

import pytest

import nkisim
import nkisim.collectives
import nkisim.isa
import nkisim.language
from each_case import each_case
from nkisim.diagnostics import NkiCallError
from nkisim.spec import INSTRUCTIONS

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "nki-0.3.0-signatures.json").read_text()
)

FUNCTIONS = [
    (module, name, parameters)
    for module, content in RECORDED.items()
    for name, parameters in content["functions"].items()
]


@pytest.fixture(scope="module")
def modules():
    nkisim.install()
    try:
        import nki
        import nki.collectives
        import nki.isa
        import nki.language

        yield {
            "nki": nki,
            "nki.language": nki.language,
            "nki.isa": nki.isa,
            "nki.collectives": nki.collectives,
        }
    finally:
        nkisim.uninstall()


def shown(default):
    """Render a default as the record does: enum members by name, the rest by repr."""
    return str(default) if isinstance(default, Enum) else repr(default)


def described(function):
    """Return the parameters of a function in the form of the record."""
    rows = []
    for parameter in inspect.signature(function).parameters.values():
        prefix = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}.get(
            parameter.kind, ""
        )
        row = {"name": prefix + parameter.name}
        if parameter.default is not parameter.empty:
            row["default"] = shown(parameter.default)
        rows.append(row)
    return rows


def test_the_record_has_160_functions():
    assert len(FUNCTIONS) == 160


@pytest.mark.parametrize(("module", "name", "parameters"), FUNCTIONS, ids=lambda v: str(v)[:40])
def test_function_has_the_recorded_signature(modules, module, name, parameters):
    assert described(getattr(modules[module], name)) == parameters


@pytest.mark.parametrize("module", list(RECORDED))
def test_classes_have_the_recorded_members(modules, module):
    for name, content in RECORDED[module]["classes"].items():
        found = getattr(modules[module], name)
        assert inspect.isclass(found), name
        if content["enum"]:
            members = [{"name": m.name, "value": repr(m.value)} for m in found]
            assert members == content["members"], name
        else:
            for member in content["members"]:
                assert hasattr(found, member), f"{name}.{member}"


@pytest.mark.parametrize("module", list(RECORDED))
def test_names_are_present_and_exported(modules, module):
    for name in RECORDED[module]["names"]:
        assert hasattr(modules[module], name), name
    exported = set(getattr(modules[module], "__all__", ()))
    content = RECORDED[module]
    if module != "nki":
        assert {*content["functions"], *content["classes"], *content["names"]} <= exported


def test_no_function_is_left_without_a_meaning():
    """Every function of nki.isa is declared as an instruction, or is written out by hand."""
    by_hand = {"get_nc_version", "register_alloc", "register_load", "register_move"}
    by_hand.add("register_store")
    assert set(RECORDED["nki.isa"]["functions"]) - by_hand == set(INSTRUCTIONS)
    sources = [
        Path(module.__file__).parent.rglob("*.py")
        for module in (nkisim.isa, nkisim.language, nkisim.collectives)
    ]
    files = [file for found in sources for file in found]
    assert [f.name for f in files if "NotImplementedError" in f.read_text()] == []


@each_case("name", sorted(INSTRUCTIONS))
def test_calls_that_do_not_fit_name_what_does_not(name):
    function = getattr(nkisim.isa, name)
    parameters = inspect.signature(function).parameters
    required = [p.name for p in parameters.values() if p.default is p.empty]
    given = dict.fromkeys(required, object())
    for one in required:
        others = {p: value for p, value in given.items() if p != one}
        with pytest.raises(NkiCallError, match=rf"{name} is called without {one}\b"):
            function(**others)
    with pytest.raises(NkiCallError, match=f"{name} has no argument fraction="):
        function(**given, fraction=1)
    many = len(parameters) + 2
    with pytest.raises(NkiCallError, match=rf"{name} takes {many - 2} arguments, not {many}"):
        function(*[None] * many)
    if required:
        with pytest.raises(TypeError, match=rf"{name}\(\) got multiple values for argument"):
            function(None, **given)
