"""Code reads the data of findings; their texts are for people, and only renderers read them."""

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.diagnostics.findings import DATA

SOURCES = Path(nkisim.__file__).parents[1]
TEXTS = {"message", "seen", "allowed", "fix"}
READERS = {
    "nkisim/checks/exceptions.py": "quotes what a kernel raised",
    "nkisim/judging/replaying.py": "names the finding that refuses a call",
    "nkisim/judging/trial.py": "names the finding that refuses a kernel, and its fix",
    "nkisim/program/recording.py": "writes the finding that ended a kernel into its program",
    "nkisim/diagnostics/findings.py": "defines the texts, and writes them as text and as data",
    "nkisim/diagnostics/formats.py": "writes findings for a terminal, for GitHub and as SARIF",
    "nkisim/diagnostics/html.py": "writes findings as HTML",
    "nkisim/diagnostics/ledger.py": "reads findings from JSON, and shortens paths in fixes",
    "nkisim/diagnostics/report.py": "writes the representation of a report",
    "nkisim/checks/langcheck/api.py": "makes findings of faults of calls",
    "nkisim/checks/langcheck/unit.py": "makes findings of what the source shows",
    "nkisim/collectives/varying.py": "makes findings of faults of sizes",
    "nkisim/serve/editor.py": "shows findings in an editor",
    "nkisim/spec/call.py": "makes findings of violations",
    "nkisim/spec/signatures.py": "makes findings of faults of calls",
    "nkisim/cli/upgrading.py": "writes changes of an upgrade, with texts of their own",
    "nkisim/tuning/search.py": "writes why a variant is dropped",
    "nkisim/upgrade/engine.py": "makes such changes, and comments of them",
    "trnsci/core/testing/contract.py": "compares warnings of Python",
    "trnsci/cli/validate.py": "writes why a validation failed: a text of its own record",
    "trnsci/validation/table.py": "writes why a validation failed: a text of its own record",
}
"""Files that may read the texts of findings, or texts of the same names, with the reason."""


@cache
def trees():
    """The syntax trees of the files of nkisim and trnsci that read a text or write data."""
    texts = {
        path.relative_to(SOURCES).as_posix(): path.read_text()
        for package in ("nkisim", "trnsci")
        for path in sorted((SOURCES / package).rglob("*.py"))
    }
    # To parse all of them takes seconds.
    needed = re.compile(rf"[.'\"]({'|'.join(TEXTS)})\b|data=\{{")
    return {file: ast.parse(text) for file, text in texts.items() if needed.search(text)}


def is_text(node):
    """Whether code reads an attribute, or an entry, with the name of a text."""
    if not isinstance(node, (ast.Attribute, ast.Subscript)) or not isinstance(node.ctx, ast.Load):
        return False
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS
    return isinstance(node.slice, ast.Constant) and node.slice.value in TEXTS


def reads(tree):
    """The lines that read a text."""
    return [node.lineno for node in ast.walk(tree) if is_text(node)]


def searches(tree):
    """The lines that compare a text, index it, call a method of it but replace, or match it."""
    found = []
    for node in ast.walk(tree):
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Attribute):
            searching = node.attr != "replace"
        elif isinstance(node, ast.Call):
            searching, inner = ast.unparse(node.func).startswith("re."), node.args
        else:
            searching = isinstance(node, (ast.Compare, ast.Subscript, ast.Match))
        if searching and any(map(is_text, inner)):
            found.append(node.lineno)
    return found


def test_no_code_reads_the_text_of_findings_back():
    found = {file: lines for file, tree in trees().items() if (lines := reads(tree))}
    assert {file: found[file] for file in found.keys() - READERS.keys()} == {}
    assert READERS.keys() - found.keys() == set(), "these need no exception any more"


def test_renderers_search_no_text():
    assert [file for file, tree in trees().items() if searches(tree)] == []


def test_the_scan_sees_all_ways_to_read_a_text():
    text = "f.message\nf['seen']\nf.fix = ''\nlen(f.allowed)\nf.rule\nf[0]\n"
    assert sorted(reads(ast.parse(text))) == [1, 2, 4]
    text = (
        "'x' in f.message\nf.fix == y\nf.seen.split()\nf.seen[2:]\nre.match(p, f.message)\n"
        "print(f.message)\nf.fix.replace(a, b)\nf.fix or 1\nf'{f.seen}'\n"
    )
    assert sorted(searches(ast.parse(text))) == [1, 2, 3, 4, 5]


def test_every_key_of_data_is_documented_and_used():
    """The literals ``data={...}`` of the checks have these keys and no others."""
    written = {
        key.value
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "data" and isinstance(node.value, ast.Dict)
        for key in node.value.keys
        if isinstance(key, ast.Constant)
    }
    others = {
        "condition",
        "keyword",
        "makes",
        "outputs",
        "renamed",
    }  # made in a statement of their own
    assert written | others == set(DATA)


def one_finding(kernel, *arguments):
    (finding,) = nkisim.check(kernel, source=False)(*arguments).findings
    return finding


def test_data_has_the_values_of_the_texts():
    def unwritten(x):
        out = nl.ndarray((64, 48), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[0:32, 0:16], src=x)
        return out

    finding = one_finding(unwritten, np.zeros((32, 16), np.float32))
    assert finding.rule.id == "M006"
    assert finding.data == {"unwritten_box": [(0, 64), (0, 48)]}
    assert "[0:64, 0:48]" in finding.seen
    assert finding.to_dict()["data"] == finding.data

    def tall(x):
        return nl.load(x)

    finding = one_finding(tall, np.zeros((200, 8), np.float32))
    assert (finding.rule.id, finding.data) == ("S001", {"rows": 200})
