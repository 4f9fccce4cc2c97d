"""Advice with code, pasted into the bad twins: the result is legal, right and as fast as promised.

Code is pasted as a person would: statements in place of those that they change, definitions before
them, and what the comments say about the place.
"""

import ast
import inspect
import re
import textwrap

import numpy as np
import pytest

import nkisim
from kernels import TWINS
from kernels import advice as _advice  # noqa: F401 (declares the twins)
from nkisim.filecheck import CheckSettings, fix_files
from nkisim.filecheck.modules import imported

HEAD = """import nkisim.isa as nisa
import nkisim.language as nl


"""
EXAMPLE = """

def nkisim_examples():
    import nkisim
    from kernels import TWINS

    (twin,) = [twin for twin in TWINS if twin.name == {name!r}]
    yield nkisim.jit({kernel}), tuple(twin.inputs)
"""
WITH_CODE = (
    *("P002", "P005", "P007", "P009", "P009_second_pass", "P010", "P011", "P012"),
    "P011_gpsimd",
)
ONLY_HARDWARE = ("P012", "P011_gpsimd")
"""Twins that ask for descriptors by hardware already, which gen2 does not have."""

TWIN = {twin.name: twin for twin in TWINS if twin.advised}


class Text:
    """The lines of a kernel, numbered as they were."""

    def __init__(self, text):
        self.lines = dict(enumerate(text.splitlines(), 1))
        self.module = ast.parse(text)

    def statement(self, line):
        """The innermost statement of a line."""
        found = [
            node
            for node in ast.walk(self.module)
            if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno
        ]
        return max(found, key=lambda node: node.lineno)

    def indent(self, line):
        text = self.lines[line]
        return text[: len(text) - len(text.lstrip())]

    def replace(self, line, code):
        node = self.statement(line)
        indent = " " * node.col_offset
        for number in range(node.lineno, node.end_lineno + 1):
            self.lines[number] = ""
        self.lines[node.lineno] = textwrap.indent(code, indent)

    def before(self, line, code):
        self.lines[line] = f"{textwrap.indent(code, self.indent(line))}\n{self.lines[line]}"

    def text(self):
        return "\n".join(self.lines.values()) + "\n"


def called(statement):
    """Function and destination of a statement that calls an instruction; else None."""
    call = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call):
        return None
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    return ast.unparse(call.func), given.get("dst"), given.get("src")


def pasted(text, piece):
    """The text of a file with the code of a piece of advice."""
    made = Text(text)
    if piece.rule == "P009":
        return _kept(made, piece)
    if piece.rule == "P005":
        name = piece.values["tile"]
        (old,) = [n for n in made.lines if made.lines[n].strip().startswith(f"{name} = nl.")]
        made.before(piece.line, piece.code)
        made.replace(old, "")
        return made.text()
    if piece.rule == "P010":
        for line in piece.values["lines"]:
            made.replace(line, piece.code if line == piece.line else "")
        return made.text()
    define = []
    for statement in ast.parse(piece.code).body:
        if called(statement) is None:
            define.append(ast.unparse(statement))
            continue
        (line,) = {
            node.lineno
            for node in ast.walk(made.module)
            if isinstance(node, ast.Expr) and called(node) == called(statement)
        }
        made.replace(line, ast.unparse(statement))
    first = next(n.body[0].lineno for n in made.module.body if isinstance(n, ast.FunctionDef))
    made.before(first, "\n".join(define))
    return made.text()


def _kept(made, piece):
    """P009: loads before a loop, and kept tiles in place of the loads."""
    if not piece.values["before"]:
        lines = re.findall(
            r"(.+?)  # (before|after|in place).*?(?::(\d+))?$", piece.code, re.MULTILINE
        )
        for code, where, line in lines:
            if where == "in place":
                made.replace(piece.line, code)
                continue
            loops = [n for n in ast.walk(made.module) if isinstance(n, ast.For)]
            (loop,) = [n for n in loops if n.lineno < int(line) <= n.end_lineno]
            if where == "before":
                made.before(loop.lineno, code)
            else:
                made.lines[int(line)] += "\n" + made.indent(int(line)) + code
        return made.text()
    ahead, _, instead = piece.code.partition("# in place of the load\n")
    made.replace(piece.line, instead or "")
    made.before(piece.values["before"], ahead)
    return made.text()


@pytest.mark.parametrize(
    ("name", "profiles"),
    [(name, slice(i % 2, i % 2 + 1)) for i, name in enumerate(WITH_CODE)]
    + [pytest.param(name, slice(None), marks=pytest.mark.slow) for name in WITH_CODE],
    ids=lambda value: value if isinstance(value, str) else "one" if value.stop else "all",
)
def test_pasted_code_is_legal_right_and_as_fast_as_promised(name, profiles, tmp_path):
    """It is profiled on one of the twin's generations, and the slow test on all of them."""
    twin = TWIN[name]
    lines, _ = inspect.getsourcelines(twin.bad)
    first = next(i for i, line in enumerate(lines) if line.startswith("def "))
    source = HEAD + "".join(lines[first:]) + EXAMPLE.format(name=name, kernel=twin.bad.__name__)
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(source)
    for target in twin.targets[profiles]:
        slow = profiled(before, twin, target, advice=True)
        (piece, *_) = [p for p in slow.advice if p.rule == twin.rule]
        after.write_text(pasted(source, piece))
        fast = profiled(after, twin, target, advice=False)
        assert slow.latency_us - fast.latency_us >= piece.gain_us / 2, after.read_text()
    assert_close(result_of(before, twin), result_of(after, twin))
    targets = twin.targets if name in ONLY_HARDWARE else ("gen2", "gen3", "gen4")
    found, (result,) = fix_files(
        [(after, twin.bad.__name__)], CheckSettings(targets=targets), write=True
    )
    assert not found.findings, after.read_text()
    assert not result.changed


def profiled(file, twin, target, *, advice):
    """The profile of a file's kernel."""
    with imported(file, 60.0) as module:
        kernel = getattr(module, twin.bad.__name__)
        return nkisim.profile(kernel, target, advice=advice)(*twin.inputs)


def result_of(file, twin):
    """The result of a file's kernel for random inputs."""
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1, 1, value.shape).astype(value.dtype) for value in twin.inputs]
    with imported(file, 60.0) as module:
        kernel = getattr(module, twin.bad.__name__)
        return nkisim.simulate(kernel, target=twin.targets[-1])(*inputs)


def assert_close(a, b):
    a, b = (np.asarray(x, np.float64) for x in (a, b))
    # The steps of one activation are not rounded in between: bfloat16 has an error of 2^-8.
    np.testing.assert_allclose(a, b, rtol=0, atol=2.0**-7 * np.abs(a).max())
