"""The contracts on imports notice what they forbid, and nothing else."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import grimp
import pytest
from importlinter import configuration
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract

TOOL = Path(__file__).parents[2] / "tools" / "import_contracts.py"


@pytest.fixture(scope="module")
def contracts():
    spec = importlib.util.spec_from_file_location("import_contracts", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A function that writes packages from the text of their modules."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(**modules):
        for name, text in modules.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(text)

    return write


def checked(contract, *roots, **options):
    options = {"packages": list(roots), **options}
    made = contract(name="tested", session_options={}, contract_options=options)
    graph = grimp.build_graph(*roots, *options.get("sealed", ()), cache_dir=None)
    return made.check(graph, verbose=False)


def test_circles_of_two_and_of_three_are_found(contracts, packages):
    packages(
        pa__one="import pa.two",
        pa__two="def late():\n    import pa.one",
        pa__three="import pa.four",
        pa__four="import pa.five",
        pa__five="import pa.three\nimport pa.one",
        pa__six="import pa.three",
    )
    check = checked(contracts.AcyclicContract, "pa")
    assert not check.kept
    assert sorted(check.metadata["circles"]) == [
        ["pa.five", "pa.four", "pa.three"],
        ["pa.one", "pa.two"],
    ]


def test_what_only_type_checkers_import_is_a_circle_too(contracts, packages):
    packages(
        pb__one="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pb.two",
        pb__two="import pb.one",
    )
    assert not checked(contracts.AcyclicContract, "pb").kept


@pytest.mark.parametrize("name", ['"gemm"', "name", "f'{name}'"])
def test_a_look_up_of_an_operation_by_name_is_an_import(contracts, packages, name):
    package = f"look{len(name)}"
    packages(
        **{
            f"{package}__rules": f"def rule(name):\n    return LIBRARY.operations[{name}](1)",
            f"{package}__table": f"import {package}.rules\nGEMM = Operation(LIBRARY, 'gemm')",
            f"{package}__reader": "found = LIBRARY.operations['gemm']",
            f"{package}__other": "LIBRARY.operations['other'] = 1",
        }
    )
    check = checked(contracts.AcyclicContract, package)
    assert check.metadata["circles"] == [[f"{package}.rules", f"{package}.table"]]


def test_private_modules_of_others_are_found(contracts, packages):
    packages(
        pc__one="import pd._inner\nimport pd.outer\nimport pc._own",
        pc___own="from pe import shown",
        pc__two="import pe.deep",
        pd__outer="",
        pd___inner="",
        pe__deep="shown = 1",
    )
    check = checked(contracts.PublicContract, "pc", "pd", sealed=["pe"])
    assert check.metadata["found"] == [("pc.one", "pd._inner"), ("pc.two", "pe.deep")]
    assert not check.kept


def test_folders_that_import_each_other_are_found_though_no_modules_do(packages):
    packages(
        ph__a__one="import ph.b.two",
        ph__a__four="",
        ph__b__two="",
        ph__b__three="import ph.a.four",
        ph__top="import ph.a.one\nimport ph.b.three",
    )
    settings = tomllib.loads((TOOL.parents[1] / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (own,) = [made for made in contracts if made["type"] == "acyclic_siblings"]
    libraries = {"trnblas", "trnfft", "trnrand", "trnsci", "trnsolver", "trnsparse", "trntensor"}
    assert {f"{name}{end}" for name in libraries for end in ("", ".**")} <= set(own["ancestors"])
    configuration.configure()
    options = {"ancestors": ["ph", "ph.**"]}
    made = AcyclicSiblingsContract(name="folders", session_options={}, contract_options=options)
    graph = grimp.build_graph("ph", cache_dir=None)
    assert not made.check(graph, verbose=False).kept
    graph.remove_import(importer="ph.b.three", imported="ph.a.four")
    assert made.check(graph, verbose=False).kept
