"""What replaces functions that NKI does not have: of NumPy, math, or invented."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from each_case import each_case
from kernels import f32
from nkisim.filecheck.modules import imported
from nkisim.intents import intent_of

HEAD = "import math\nimport nkisim\nimport nkisim.isa as nisa\nimport nkisim.language as nl\n"
HEAD += "import numpy as np\n\n\n"
IN_LANGUAGE = {name for name in nl.__all__ if callable(getattr(nl, name))}
NOT_OF_TILES = {"load", "ndarray"}


def functions(module):
    """Functions of a module that nki.language has under the same name."""
    return sorted(
        name
        for name in dir(module)
        if name in IN_LANGUAGE - NOT_OF_TILES
        and callable(getattr(module, name))
        and not isinstance(getattr(module, name), type)
    )


def read(tmp_path, text, kernel="kernel"):
    file = tmp_path / "read.py"
    file.write_text(HEAD + text)
    return nkisim.check_source(file, kernel).findings


OF_TILE = "@nkisim.jit\ndef kernel(x):\n    t = nl.load(x)\n    u = {}(t)\n    return u\n"
OF_UNKNOWN = (
    "def helper(t):\n    return {}(t)\n\n\n"
    "@nkisim.jit\ndef kernel(x):\n    return helper(nl.load(x))\n"
)
# In kernels math has these, for numbers.
SUPPORTED = ("ceil", "floor", "gcd", "log10", "log2", "pow", "sqrt")
CALLS = [f"np.{name}" for name in functions(np)]
CALLS += [f"math.{name}" for name in functions(math) if name not in SUPPORTED]


@each_case("text", [OF_TILE, OF_UNKNOWN], ids=["of a tile", "of a parameter"])
@each_case("function", CALLS)
def test_the_fix_names_the_function_of_nki(tmp_path, function, text):
    (found,) = [f for f in read(tmp_path, text.format(function)) if f.rule.id == "L021"]
    name = function.partition(".")[2]
    assert f"nl.{name}" in found.fix, found.fix
    assert ("on the host" in found.fix) <= (text is OF_UNKNOWN)


@each_case(
    "function, said",
    [
        ("np.sqrt", "nisa.activation(dst=..., op=nl.sqrt, data=...)"),
        ("np.absolute", "nl.abs, or nisa.activation(dst=..., op=nl.abs, data=...)"),
        ("np.fmax", "nl.maximum, or nisa.tensor_tensor"),
        ("np.amax", "nl.max, or nisa.tensor_reduce(dst=..., op=nl.maximum, data=..., axis=1)"),
        ("np.sum", "nl.sum, or nisa.tensor_reduce(dst=..., op=nl.add, data=..., axis=1)"),
        ("np.dot", "nl.matmul, or nisa.nc_matmul"),
        ("np.true_divide", "nl.divide"),
        ("math.fabs", "nl.abs"),
        ("math.sqrt", "nl.sqrt, or nisa.activation"),  # which kernels have, for numbers
        ("math.atan", "nl.arctan"),
    ],
)
def test_the_fix_names_the_instruction(tmp_path, function, said):
    for text in (OF_TILE, OF_UNKNOWN) if function != "math.sqrt" else (OF_TILE,):
        (found,) = [f for f in read(tmp_path, text.format(function)) if f.rule.id == "L021"]
        assert said in found.fix, found.fix


@each_case(
    "call, said",
    [
        ("np.sqrt(x.shape[1])", "write math.sqrt"),
        ("np.exp(-2.0)", "compute it on the host"),
        ("math.exp(len(x.shape))", "math has ceil"),
    ],
)
def test_of_numbers_no_instruction_is_named(tmp_path, call, said):
    text = f"@nkisim.jit\ndef kernel(x):\n    n = {call}\n    return x\n"
    (found,) = [f for f in read(tmp_path, text) if f.rule.id == "L021"]
    assert said in found.fix
    assert "nisa." not in found.fix


UFUNCS = [name for name in functions(np) if isinstance(getattr(np, name), np.ufunc)]


@each_case("name", [*UFUNCS, "sum", "max", "min", "mean", "var", "prod", "all", "transpose"])
def test_a_run_names_it_too(name):
    def kernel(x):
        tile, function = nl.load(x), getattr(np, name)
        function(*[tile] * getattr(function, "nin", 1))

    report = nkisim.check(kernel, source=False)(f32(4, 8))
    (found,) = [f for f in report.findings if f.rule.id == "L027"]
    assert f"nl.{name}" in found.fix


UNARY = "exp log sqrt rsqrt tanh sigmoid gelu relu silu softplus sin erf square abs sign "
UNARY += "mish arctan reciprocal"


@each_case("name", UNARY.split())
def test_the_instruction_that_is_named_exists(name):
    """The remedy, as code."""
    text = intent_of(name).remedy()

    def kernel(x):
        tile = nl.load(x)
        code = text.replace("dst=...", "dst=tile").replace("data=...", "data=tile")
        exec(code, {"nisa": nkisim.isa, "nl": nl, "tile": tile})
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    report = nkisim.check(kernel, source=False)(np.full((4, 8), 0.5, np.float32))
    assert report.ok, str(report)


# -- invented instructions -------------------------------------------------------------------------

INVENTED = ("tensor_mul", "tensor_add", "tensor_sub", "tensor_max", "elementwise_mul", "vector_add")
OPERANDS = {
    "two tiles": ("y", "tensor_tensor"),
    "parts of two tiles": ("y[:, 0:8]", "tensor_tensor"),
    "a number": ("2.0", "tensor_scalar"),
    "a column": ("y[:, 0:1]", "tensor_scalar"),
    "column i": ("y[:, i : i + 1]", "tensor_scalar"),
}
BODY = """
@nkisim.jit
def kernel(x):
    t, y, i = nl.load(x), nl.load(x), 1
    z = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf)
    {}
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=z)
    return out
"""


def suggested(tmp_path, call, *, runs):
    """The code to paste for an invented call, by a run or by the source; and the file's text."""
    text = BODY.format(call)
    if not runs:
        found = read(tmp_path, text)
    else:
        file = tmp_path / f"run{abs(hash(call))}.py"
        file.write_text(HEAD + text)
        with imported(file, 60.0) as module:
            found = nkisim.check(module.kernel, source=False)(f32(4, 8)).findings
    (finding,) = [f for f in found if f.rule.id == "A025"]
    return finding.rewrite, HEAD + text


def accepted(tmp_path, text):
    """Whether a check of the whole file has no error."""
    file = tmp_path / f"fixed{abs(hash(text))}.py"
    file.write_text(text)
    with imported(file, 60.0) as module:
        return nkisim.check(module.kernel, source=False)(f32(4, 8))


@pytest.mark.parametrize("runs", [True, False])
@each_case("kind", OPERANDS)
@each_case("name", INVENTED)
def test_an_operation_of_two_gets_the_instruction_of_its_operands(tmp_path, name, kind, runs):
    second, instruction = OPERANDS[kind]
    rewrite, text = suggested(tmp_path, f"nisa.{name}(z, t, {second})", runs=runs)
    assert f"nisa.{instruction}(" in rewrite.code
    assert second.replace("i : i", "i:i") in rewrite.code
    report = accepted(tmp_path, rewrite.applied(text))
    assert report.ok, str(report)


@pytest.mark.parametrize("runs", [True, False])
def test_named_operands_are_tiles_too(tmp_path, runs):
    rewrite, _ = suggested(tmp_path, "nisa.tensor_mul(dst=z, data1=t, data2=y)", runs=runs)
    assert "nisa.tensor_tensor(dst=z, data1=t, data2=y, op=nl.multiply)" in rewrite.code


def test_a_run_knows_which_names_are_numbers(tmp_path):
    rewrite, _ = suggested(tmp_path, "nisa.tensor_mul(z, t, i)", runs=True)
    assert "nisa.tensor_scalar(dst=z, data=t, op0=nl.multiply, operand0=i)" in rewrite.code


@each_case("call", ["nisa.mul(z, t, y)", "nisa.copy(z, t)"])
def test_the_source_alone_does_not_guess(tmp_path, call):
    assert suggested(tmp_path, call, runs=False)[0] is None
    assert suggested(tmp_path, call, runs=True)[0] is not None


@pytest.mark.parametrize("runs", [True, False])
@each_case("call", ["nisa.dma_load(z, x)", "nisa.load(z, x)"])
def test_a_transfer_is_a_dma(tmp_path, call, runs):
    assert "nisa.dma_copy(dst=z, src=x)" in suggested(tmp_path, call, runs=runs)[0].code


def test_the_memory_decides_how_to_copy(tmp_path):
    assert "tensor_copy" in suggested(tmp_path, "nisa.copy(z, t)", runs=True)[0].code
    assert "dma_copy" in suggested(tmp_path, "nisa.copy(z, x)", runs=True)[0].code
