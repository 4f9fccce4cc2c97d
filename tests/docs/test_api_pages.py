"""The reference of the packages: every public name once, with its signature and its docstring."""

import importlib
import importlib.util
import re

import pytest

from .pages import ROOT, Page


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("gen_api", ROOT / "tools/gen_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(generator, tmp_path_factory):
    home = tmp_path_factory.mktemp("docs")
    (home / "api").mkdir()
    (home / "api" / "gone.md").write_text("of an earlier run\n")
    generator.main(home)
    return home / "api"


def test_a_page_per_package_and_all_in_the_index(generator, folder):
    assert {path.stem for path in folder.iterdir()} == {*generator.PACKAGES, "index"}
    assert set(Page.read(folder / "index.md").links) == {f"{n}.md" for n in generator.PACKAGES}


def test_every_public_name_has_an_entry_that_says_something(generator, folder):
    for package in generator.PACKAGES:
        module = importlib.import_module(package)
        text = (folder / f"{package}.md").read_text()
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == generator.public_names(module)
        silent = [
            name
            for name, part in zip(headings, re.split(r"^## .+$", text, flags=re.M)[1:], strict=True)
            if not re.sub(r"```.*?```", "", part, flags=re.S).strip()
        ]
        assert silent == [], package


def test_fences_are_closed_and_nothing_of_this_machine_is_named(folder):
    for path in folder.iterdir():
        text = path.read_text()
        assert text.count("```") % 2 == 0
        assert str(ROOT) not in text
        assert " at 0x" not in text


def test_signatures_are_written_as_in_the_source(folder):
    text = (folder / "trnblas.md").read_text()
    assert "asum(x: Tensor, *, out: Tensor | None = None) -> Tensor" in text
    assert "- `alpha`: " in text
