"""What importing nkisim brings in, and what it does not."""

import importlib
import pkgutil
import sys
from pathlib import Path

import click
import pytest

import nkisim
from fresh_process import printed_by
from nkisim.cli import commands


def loaded_after(statement):
    """Names in ``sys.modules`` of a fresh interpreter after ``statement``, and if it finds nki."""
    code = f"""
{statement}
import importlib.util, sys
loaded = list(sys.modules)
print(json.dumps([loaded, importlib.util.find_spec("nki") is not None]))
"""
    loaded, found = printed_by(code)
    return set(loaded), found


@pytest.mark.parametrize(
    ("statement", "makes_nki_importable"),
    [
        (
            "import nkisim; nkisim.simulate\n"
            "import nkisim.language, nkisim.isa, nkisim.typing, nkisim.collectives\n"
            "import nkisim.upgrade",
            False,
        ),
        ("import nkisim; nkisim.install(); import nki, nki.dtype", True),
    ],
)
def test_the_library_needs_nothing_optional(statement, makes_nki_importable):
    loaded, found = loaded_after(statement)
    assert "numpy" in loaded
    assert loaded.isdisjoint({"torch", "matplotlib", "click", "rich"})
    assert found is makes_nki_importable


@pytest.mark.parametrize(
    "statement",
    [
        "import nkisim.pytest_plugin",
        "import nkisim.shim; nkisim.shim.install()",
    ],
)
def test_what_every_process_may_load_is_light(statement):
    loaded, _ = loaded_after(statement)
    assert "nkisim" in loaded
    assert loaded.isdisjoint({"numpy", "ml_dtypes", "nkisim.api", "nkisim.machine", "nkisim.isa"})


KERNELS = Path(__file__).parent / "judging" / "kernels" / "honest.py"
CALL = [f"{KERNELS}::weighted", "--shapes", "x=f32[128,64]"]
HEAVY = {"numpy", "ml_dtypes", "rich", "email", "nkisim.options", "nkisim.versions"}
ON_DEMAND = {"difflib", "html", "logging", "rich", "shutil", "tempfile", "nkisim.judging"}
RUNS = {"nkisim.api", "nkisim.checks", "nkisim.filecheck", "nkisim.isa", "nkisim.profiling"}


@pytest.fixture(scope="module")
def of_others():
    """Modules of Python that the dependencies load: some versions load more than others."""
    loaded, _ = loaded_after("import click, ml_dtypes, threadpoolctl")
    return loaded & sys.stdlib_module_names


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["--version"], HEAVY | RUNS | {"nkisim.diagnostics"}),
        (["rule", "M004"], HEAVY | RUNS | {"nkisim.diagnostics"}),
        (["rule", "accumulate-after-fill"], HEAVY | RUNS | {"nkisim.diagnostics"}),
        (["rules", "psum"], HEAVY | RUNS | {"nkisim.diagnostics"}),
        (["upgrade", __file__], RUNS | {"ml_dtypes", "rich", "concurrent"}),
        (["check", "--source-only", "--allow-none", __file__], ON_DEMAND | {"nkisim.profiling"}),
        (["check", "--allow-none", __file__], ON_DEMAND | {"nkisim.profiling", "nkisim.upgrade"}),
        (["check", *CALL], ON_DEMAND | {"nkisim.suggestions.loops", "nkisim.trials"}),
        (["profile", *CALL], ON_DEMAND | {"nkisim.profiling.page", "nkisim.upgrade"}),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_a_command_imports_what_it_uses(arguments, unused, of_others):
    loaded, _ = loaded_after(
        f"import sys; sys.stderr = sys.stdout\n"
        f"from nkisim.cli import commands\n"
        f"commands.main({arguments!r}, standalone_mode=False, obj=None)"
    )
    assert "nkisim.cli.group" in loaded
    assert loaded.isdisjoint(unused - of_others)


def test_every_command_is_listed_with_its_module():
    context = click.Context(commands)
    listed = {name: commands.get_command(context, name) for name in commands.list_commands(context)}
    for module in pkgutil.iter_modules(nkisim.cli.__path__, "nkisim.cli."):
        importlib.import_module(module.name)
    assert listed == commands.commands


def test_the_public_names_are_listed_in_order_and_exist():
    assert list(nkisim.__all__) == sorted(nkisim.__all__)
    assert set(nkisim.__all__) <= set(dir(nkisim))
    assert [name for name in nkisim.__all__ if not hasattr(nkisim, name)] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        nkisim.simulat  # noqa: B018
