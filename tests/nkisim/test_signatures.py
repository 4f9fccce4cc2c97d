"""The public surface is that of each NKI version: names, parameters, order, defaults, members."""

import ast
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
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.signatures import parameters_of
from nkisim.versions import names_of
from releases import VERSIONS

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "nki-0.3.0-signatures.json").read_text()
)

FUNCTIONS = [
    (module, name, parameters)
    for module, content in RECORDED.items()
    for name, parameters in content["functions"].items()
]


# Names that kernels use although the documentation does not list them, and inherited ones.
UNLISTED = {
    "nki.isa": {"constants"},
    "nki.language": {"bool", "range"},
    "nki.collectives": set(),
}


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


def documented(text):
    """Return the parameters of a version's file in the form of the record."""
    arguments = ast.parse(f"lambda {text}: 0", mode="eval").body.args
    names = [argument.arg for argument in arguments.args]
    rows = [{"name": name} for name in names]
    for row, default in zip(rows[::-1], arguments.defaults[::-1], strict=False):
        row["default"] = ast.unparse(default)
    more = [("*", arguments.vararg), ("**", arguments.kwarg)]
    starred = [{"name": f"{stars}{found.arg}"} for stars, found in more if found]
    by_name = [
        {"name": argument.arg} | ({} if default is None else {"default": ast.unparse(default)})
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return rows + starred + by_name


def plain(row):
    """Render a row of a function with the defaults as the files of the versions write them."""
    if "default" not in row:
        return row
    text = row["default"].removeprefix("nl.").removeprefix("MemoryRegion.")
    return {**row, "default": "uint8" if text == "'uint8'" else text}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("module", list(RECORDED))
def test_functions_are_those_of_each_version(modules, module, version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    assert modules["nki"].__version__ == version
    content, found, differing = names_of(version)[module], modules[module], []
    for name, text in content["functions"].items():
        here = [plain(row) for row in described(getattr(found, name))]
        if here != documented(text):
            differing.append((name, here, documented(text)))
    assert differing == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("module", list(UNLISTED))
def test_names_are_those_of_each_version(modules, module, version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    content = names_of(version)[module]
    listed = {*content["functions"], *content["classes"], *content["names"]}
    assert [name for name in sorted(listed) if not hasattr(modules[module], name)] == []
    assert set(modules[module].__all__) == listed | UNLISTED[module]
    star = {}
    exec(f"from {module} import *", star)
    assert listed <= set(star)
    # Names with @ are pytest's own.
    shown = {name for name in dir(modules[module]) if name[0] not in "_@"}
    assert shown == set(modules[module].__all__)
    others = {name for v in VERSIONS for kind in names_of(v)[module].values() for name in kind}
    assert [name for name in sorted(others - listed) if hasattr(modules[module], name)] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_methods_have_the_parameters_of_each_version(modules, version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    for module in UNLISTED:
        for name, content in names_of(version)[module]["classes"].items():
            found = getattr(modules[module], name)
            for method, text in content.get("methods", {}).items():
                if method == "__init__":
                    continue  # kernels do not make these objects
                here = [plain(row) for row in described(getattr(found, method))]
                assert here[1:] == documented(text)[1:], f"{name}.{method}"


@pytest.mark.parametrize("version", VERSIONS)
def test_enums_have_the_members_of_each_version(modules, version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    for module in ("nki.isa", "nki.language"):
        for name, content in names_of(version)[module]["classes"].items():
            if "members" in content:
                enum = getattr(modules[module], name)
                assert sorted(member.name for member in enum) == content["members"], name


def test_no_function_is_left_without_a_meaning():
    """Every function of nki.isa is declared as an instruction, or is written out by hand."""
    by_hand = {"get_nc_sub_version", "get_nc_version", "register_alloc", "register_load"}
    by_hand |= {"register_move", "register_store", "scalar_load", "scalar_store"}
    by_hand |= {"tensor_copy_dynamic_dst", "tensor_copy_dynamic_src"}
    listed = {name for version in VERSIONS for name in names_of(version)["nki.isa"]["functions"]}
    assert set(RECORDED["nki.isa"]["functions"]) <= listed
    assert listed - by_hand == set(INSTRUCTIONS)
    sources = [
        Path(module.__file__).parent.rglob("*.py")
        for module in (nkisim.isa, nkisim.language, nkisim.collectives)
    ]
    files = [file for found in sources for file in found]
    assert [f.name for f in files if "NotImplementedError" in f.read_text()] == []


@pytest.mark.parametrize("version", VERSIONS)
@each_case("name", sorted(INSTRUCTIONS))
def test_calls_that_do_not_fit_name_what_does_not(name, version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    if name not in names_of(version)["nki.isa"]["functions"]:
        return
    function = getattr(nkisim.isa, name)
    parameters = inspect.signature(function).parameters
    required = [p.name for p in parameters.values() if p.default is p.empty]
    given = dict.fromkeys(required, object())
    for one in required:
        others = {p: value for p, value in given.items() if p != one}
        with pytest.raises(TypeError, match=rf"{name} is called without {one}\b"):
            function(**others)
    with pytest.raises(TypeError, match=f"{name} has no argument fraction="):
        function(**given, fraction=1)
    many = len(parameters) + 2
    with pytest.raises(TypeError, match=rf"{name} takes {many - 2} arguments, not {many}"):
        function(*[None] * many)
    if required:
        with pytest.raises(TypeError, match=rf"{name}\(\) got multiple values for argument"):
            function(None, **given)


def test_positional_arguments_are_those_of_the_version(monkeypatch):
    """Suggestions and source checks name positional arguments by it."""
    for version in VERSIONS:
        monkeypatch.setenv("NKISIM_NKI", version)
        third = "oob_mode" if version == "0.3.0" else "priority"
        assert parameters_of("dma_copy")[:3] == ["dst", "src", third]
        added = ["sorted"] if version >= "0.7.0" else []
        assert parameters_of("topk") == ["val_dst", "idx_dst", "src", "n", *added, "name"]
