"""The examples of CONTRIBUTING.md, done in a copy of the tree: edits, commands and what they print.

A block of an example is inserted where its text says. A command that the page shows with an output
must fail with it; one without must pass.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .pages import ROOT, Page

COPIED = ("benchmarks", "changelog.d", "docs", "examples", "scripts", "src", "tests", "tools")
SECONDS = 900


@dataclass
class Example:
    """One example of CONTRIBUTING.md, and a copy of the tree.

    Attributes:
        text: Its section.
        code: Its python blocks.
        shown: Its text blocks, each the output of a command that fails.
        recorded: Its JSON blocks together.
        root: The copy.
    """

    text: str
    root: Path
    code: list[str] = field(init=False)
    shown: list[str] = field(init=False)
    recorded: str = field(init=False)

    def __post_init__(self):
        path = self.root / "example.md"
        path.write_text(self.text)
        blocks = Page.read(path).blocks
        path.unlink()
        self.code = [block.text for block in blocks if block.info[0] == "python"]
        self.shown = [block.text for block in blocks if block.info[0] == "text"]
        self.recorded = "".join(block.text for block in blocks if block.info[0] == "json")

    def line(self, file, nth=0):
        """The code that the table of the page has for a file."""
        (row,) = (row for row in self.text.splitlines() if row.startswith(f"| `{file}`"))
        return re.findall(r"`([^`]+)`", row.rpartition(" | ")[2])[nth]

    def insert(self, file, text, *, before="", count=1):
        """Insert text before a line; at the end without one. The page names the file."""
        assert Path(file).name in self.text or str(Path(file).parent) in self.text
        path = self.root / file
        old = path.read_text()
        assert not before or old.count(before) >= count, f"{file} has no {before!r}"
        new = old.replace(before, text + before, count) if before else f"{old}\n\n{text}"
        path.write_text(new)
        if path.suffix == ".py":
            compile(new, str(path), "exec")

    def run(self, command):
        """Exit status of a command, and its output without margins and line breaks."""
        program, *arguments = _words(command)
        start = [sys.executable, "-m", "pytest"] if program == "pytest" else [sys.executable]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
        }
        done = subprocess.run(
            [*start, *arguments],
            cwd=self.root,
            env=environment | {"PYTHONPATH": str(self.root / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, _flat(re.sub(r"^(E  )", "", done.stdout, flags=re.MULTILINE))


def _words(command):
    """The words of a command; quotes keep an expression together."""
    return [first or second for first, second in re.findall(r'"([^"]*)"|(\S+)', command)]


def _flat(text):
    return " ".join(text.split())


# The steps of each example: edits, and between them (command, output or None if it passes).


def rule(example):
    instruction, twins = "src/nkisim/isa/activations/activation.py", "tests/kernels/values.py"
    every = "pytest tests/nkisim/test_rules.py -k every"
    of_file = 'pytest tests/nkisim/test_rules.py -k "values or every"'
    pages = "pytest tests/docs/test_catalogue.py"
    example.insert(instruction, example.code[0] + "\n\n", before="def _sum_only")
    constraint = re.search(r"`(Constraint\(.*\))`", example.text)[1]
    example.insert(instruction, f"    {constraint},\n", before='    Constraint("reductions add"')
    yield every, example.shown[0]
    example.insert(twins, example.code[1])
    yield of_file, example.shown[1]
    yield "python tools/record_findings.py", None
    yield of_file, None
    yield f'{pages} -k "every_rule or known_faults"', example.shown[2]
    yield from made(example, "tools/gen_catalogue.py")
    id = re.search(r'"(D\d+)"', example.code[0])[1]
    example.insert("tests/docs/test_catalogue.py", f'    "{id}",\n', before='    "L068",\n')
    yield f'{pages} -m "not slow"', None


def instruction(example):
    home = "src/nkisim/isa/__init__.py"
    meaning = "tests/nkisim/isa/test_elementwise.py"
    fails = (
        "pytest tests/nkisim/test_samples.py tests/nkisim/isa/test_declarations.py "
        "tests/tools/test_stubs.py"
    )
    signatures = "pytest tests/nkisim/test_signatures.py"
    for path in sorted((example.root / "src/nkisim/versions").glob("*.json")):
        line, before = f"   {example.recorded}", '   "nonzero_with_count": '
        example.insert(str(path.relative_to(example.root)), line, before=before)
    yield signatures, example.shown[0]
    example.insert("src/nkisim/isa/elementwise.py", example.code[0])
    example.insert(home, "    negate,\n", before="    reciprocal,\n")
    yield signatures, None
    yield fails, example.shown[1]
    samples, declared = "tests/nkisim/samples.py", "tests/nkisim/isa/test_declarations.py"
    pages = "tools/instruction_examples.py"
    example.insert(samples, f"    {example.line(samples)}\n", before='    _add("reciprocal"')
    for nth, before in enumerate(('    "reciprocal": (', '    "reciprocal": "vector"')):
        example.insert(declared, f"    {example.line(declared, nth)}\n", before=before)
    yield "pytest tests/docs/test_catalogue.py -k every_instruction", example.shown[2]
    example.insert(pages, f"    {example.line(pages)}\n", before='    "reciprocal": Example')
    yield from made(example, "tools/gen_catalogue.py", "tools/gen_stubs.py")
    example.insert(meaning, example.code[1])
    yield f"{fails} {signatures.removeprefix('pytest ')} {meaning}", None
    yield 'pytest tests/docs/test_catalogue.py -m "not slow"', None


def function(example):
    library, tests = "src/trnblas", "tests/trnblas"
    contract = f"pytest {tests}/test_contract.py"
    tables = (
        f"pytest {tests}/test_public_functions.py {tests}/test_levels.py "
        "tests/trnsci/test_required.py"
    )
    example.insert(f"{tests}/test_contract.py", example.code[0])
    yield f"{contract} -k hadamard", example.shown[0]
    example.insert(f"{library}/level1.py", example.code[1] + "\n\n", before="def _plain_axpy")
    example.insert(f"{library}/level1.py", '"hadamard", ', before='"iamax"')
    example.insert(f"{library}/__init__.py", "hadamard, ", before="iamax")
    example.insert(f"{library}/__init__.py", '    "hadamard",\n', before='    "hemm",\n')
    yield f"{contract} -k hadamard", None
    yield tables, example.shown[1]
    for file, before in (
        (f"{tests}/test_public_functions.py", '"hemm": ('),
        (f"{library}/examples.py", '"hemv": example('),
        (f"{tests}/test_levels.py", '"iamax"'),
    ):
        example.insert(file, f"{example.line(file)} ", before=before)
    refusal = f"    {example.code[2].strip()},\n"
    example.insert(
        f"{tests}/test_arguments.py", refusal, before="    (lambda: trnblas.swap(ones(3)"
    )
    row = "| `hadamard(x, y)` | x[i] y[i] for every i |\n"
    example.insert("docs/libraries/trnblas.md", row, before="| `swap(x, y)`, `copy(x)` |")
    yield from made(example, "tools/gen_coverage.py")
    yield f"{contract} {tests}/test_arguments.py", None
    yield tables, None
    yield "pytest tests/docs/test_coverage_page.py", None


def kernel(example):
    """The kernel alone; the steps that connect it are not done."""
    tested, written = "tests/trnblas/kernels/test_axpy.py", "src/trnblas/_kernels/axpy.py"
    guide = Page.read(ROOT / "docs" / "guides" / "developing-kernels.md")
    shown = next(block.text for block in guide.blocks if "def axpy" in block.text)
    (example.root / tested).write_text(example.code[0])
    yield f"pytest {tested}", example.shown[0]
    assert f"`{written}`" in example.text
    (example.root / written).write_text(shown)
    yield f"pytest {tested}", None


def made(example, *tools):
    """The commands of ``make docs`` that an example needs: the site's builder is not needed."""
    assert "`make docs`" in example.text
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]
    for tool in tools:
        assert f"bin/python {tool}\n" in recipe
        yield f"python {tool}", None


EXAMPLES = {
    "a rule": rule,
    "an instruction": instruction,
    "a public function without a kernel": function,
    "a kernel of a library": kernel,
}


@pytest.fixture
def copied(tmp_path):
    """A function from the title of an example to the example in a new copy of the tree."""

    def make(title):
        root = tmp_path / "tree"
        shutil.rmtree(root, ignore_errors=True)
        for name in COPIED:
            shutil.copytree(
                ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.nbc")
            )
        for path in ROOT.iterdir():
            if path.is_file() and path.name != ".git":  # a file in a worktree of git
                shutil.copy(path, root)
        text = (ROOT / "CONTRIBUTING.md").read_text()
        section = re.split(r"^## ", text.partition(f"## Example: {title}\n")[2], flags=re.M)[0]
        return Example(_with_free_id(section), root)

    return make


def _with_free_id(text):
    """The text with the next free id of a rule, if the tree uses the one that it has."""
    used = {path.stem for path in (ROOT / "docs" / "rules").glob("D*.md")}
    for id in set(re.findall(r"\bD\d{3}\b", text)) & used:
        text = text.replace(id, f"D{int(max(used)[1:]) + 1:03}")
    return text


def test_every_example_is_done():
    titles = re.findall(r"^## Example: (.+)$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert titles == list(EXAMPLES)


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_edits_apply(copied, title):
    example = copied(title)
    commands = [command for command, shown in EXAMPLES[title](example) if shown]
    assert [command for command in commands if f"`{command}" not in example.text] == []


@pytest.mark.slow
@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_ends_as_the_page_says(copied, title):
    example = copied(title)
    for command, shown in EXAMPLES[title](example):
        assert_done(example, command, shown)


def assert_done(example, command, shown):
    status, printed = example.run(command)
    assert (status != 0) == (shown is not None), f"{command}: {printed[-3000:]}"
    for line in (shown or "").splitlines():
        for part in re.split(r"\s{3,}", line.strip()):
            assert _flat(part) in printed, f"{command}: no {part!r} in {printed[-3000:]}"
