"""Every python block of every page runs and prints what the page shows; every link leads somewhere.

The blocks of a page make one file, in the order of the page. A ``text`` or ``json`` block directly
below a python block is what that block prints.
"""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from each_case import each_case
from fresh_process import nkisim_command

# api and collectives are imported for the rules that they declare.
from nkisim import api, collectives, isa, language, uninstall  # noqa: F401
from nkisim.cli import commands
from nkisim.diagnostics import RULES
from nkisim.versions import names_of
from releases import VERSIONS
from trnsci.core import counters

from .pages import DOCS, GENERATED, ROOT, SITE_ONLY, Page, written_pages

PAGES = written_pages()
VARIABLES = ("NKI_SIMULATOR", "NKI_PRECISE_FP", "NEURON_PLATFORM_TARGET_OVERRIDE")


def name_of(path):
    return str(path.relative_to(ROOT))


# Its examples add names that do not exist.
each_page_and_contributing = each_case("path", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)


def run_forked(command, run=subprocess.run, **options):
    """``subprocess.run``; ``python -m nkisim`` is a fork that has imported it."""
    if command[:3] != [sys.executable, "-m", "nkisim"]:
        return run(command, **options)
    assert options == {"capture_output": True, "text": True}
    return nkisim_command(*command[3:], cwd=os.getcwd())


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_blocks_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", run_forked)
    counters.reset()
    try:
        Page.read(path).run()
    finally:
        uninstall()


@each_page_and_contributing
def test_links_lead_to_a_page_and_a_heading(path):
    for link in Page.read(path).links:
        target, _, anchor = link.partition("#")
        found = (path.parent / target).resolve() if target else path
        if found.is_relative_to(DOCS) and found.relative_to(DOCS).parts[0] in SITE_ONLY:
            assert found.stem in {"index", *dir(isa)}, link
            continue
        assert found.exists(), link
        assert not anchor or anchor in Page.read(found).anchors, link


def _documented(module):
    """Return the names that a module of NKI has in any version."""
    return {name for v in VERSIONS for kind in names_of(v)[module].values() for name in kind}


# The page of the upgrade rules has names of releases before 0.3.0.
@each_case("path", [page for page in PAGES if page.name != "migration.md"], ids=name_of)
def test_rules_and_instructions_are_called_by_their_names(path):
    prose = "\n".join(Page.read(path).prose)
    assert set(re.findall(r"\b[LSMDACR]\d{3}\b", prose)) <= set(RULES)
    assert set(re.findall(r"\bnisa\.(\w+)", prose)) <= {*dir(isa), *_documented("nki.isa")}
    language_names = {*dir(language), *_documented("nki.language")}
    assert set(re.findall(r"\bnl\.(\w+)", prose)) <= language_names


@each_page_and_contributing
def test_shown_commands_exist(path):
    shell = [b.text for b in Page.read(path).blocks if b.info[:1] == ["sh"]]
    lines = [line.partition("#")[0] for text in shell for line in text.splitlines()]
    makefile = (ROOT / "Makefile").read_text()
    for line in lines:
        for target in re.findall(r"^make (\S+)", line):
            assert re.search(rf"^[\w -]*\b{target}\b[\w -]*:", makefile, re.MULTILINE), line
        for command in re.findall(r"\bnkisim (\w[\w-]*)(?=\s|$)", line):
            assert command in commands.list_commands(None), line


def test_the_site_map_names_every_page():
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r"(\S+\.md)$", text.partition("\nnav:")[2], re.MULTILINE))
    written = {str(p.relative_to(DOCS)) for p in PAGES if p.is_relative_to(DOCS)}
    assert named == written | {f"{folder}/index.md" for folder in GENERATED}


ROLES = {
    "trnblas": "cuBLAS",
    "trnfft": "cuFFT",
    "trnrand": "cuRAND",
    "trnsolver": "cuSOLVER",
    "trnsparse": "cuSPARSE",
    "trntensor": "cuTENSOR",
}


@each_case(("library", "role"), ROLES.items())
def test_what_stands_beside_a_library_exists(library, role):
    prose = Page.read(DOCS / "libraries" / f"{library}.md").prose
    start = prose.index(f"| {library} | {role} | torch |") + 2
    rows = list(takewhile(lambda line: line.startswith("|"), prose[start:]))
    assert len(rows) >= 10
    ours, _, torchs = zip(*(row.strip("| ").split(" | ") for row in rows), strict=True)
    module = importlib.import_module(library)
    names = {name for cell in ours for name in re.findall(r"`(\w+)`", cell)} - {"k", "subset"}
    assert names <= set(module.__all__)
    for name in (name for cell in torchs for name in re.findall(r"`([\w.]+)`", cell)):
        assert pkgutil.resolve_name(name) is not None


@pytest.fixture
def page(tmp_path):
    """A function that writes and reads a page."""

    def make(text: str) -> Page:
        path = Path(tmp_path / "page.md")
        path.write_text(text)
        return Page.read(path)

    return make


def test_output_that_differs_is_noticed(page):
    page("```python\nprint(1)\n```\n\n```text\n1\n```\n").run()
    with pytest.raises(AssertionError, match="line 2"):
        page("```python\nprint(1)\n```\n\n```text\n2\n```\n").run()
    with pytest.raises(AssertionError, match="line 2"):
        page("```python\nprint(1)\n```\n").run()


def test_blocks_share_a_namespace_and_no_run_is_left_out(page):
    text = "```python\nx = 1\n```\n```python no-run\nx = 2\n```\n```python\nprint(x)\n```\n"
    page(text + "```text\n1\n```\n").run()


def test_lines_are_counted_over_all_blocks(page):
    text = "```python\n# counted.py\n```\n\n```python\nraise KeyError\n```\n"
    with pytest.raises(KeyError) as caught:
        page(text).run()
    last = caught.traceback[-1]
    assert (last.path, last.lineno + 1) == ("counted.py", 3)


def test_the_stylesheets_of_the_site_exist():
    listed = (ROOT / "mkdocs.yml").read_text().partition("extra_css:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  - (\S+\.css)$", listed, re.MULTILINE)
    assert names
    assert all((DOCS / name).is_file() for name in names)
