"""Forms of Beta 1: what they become, what only looks like them, what is left as a finding."""

from each_case import each_case
from upgraded import upgrade_text

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


"""
KERNEL = "@nki.jit\ndef kernel({}):\n    "


def module(text):
    return HEAD + text + "\n"


def lines(*rows):
    return "\n".join(rows)


PAIRS = {
    "a name that is bound twice": (
        lines(
            "i = nl.arange(128)[:, None]",
            "j = nl.arange(64)[None, :]",
            "a = nl.load(x[i, j])",
            "i = nl.arange(32)[:, None]",
            "b = nl.load(x[i + 4, j])",
        ),
        lines("a = nl.load(x[0:128, 0:64])", "b = nl.load(x[4:36, 0:64])"),
    ),
    "two names at once": (
        lines("i = k = nl.arange(128)[:, None]", "a = nl.load(x[i, nl.arange(64)[None, :]])"),
        "a = nl.load(x[0:128, 0:64])",
    ),
    "a grid as the index": (
        lines("g = nl.mgrid[0:128, 0:64]", "a = nl.load(x[g])", "b = nl.load(x[g[0], g.x])"),
        lines("a = nl.load(x[0:128, 0:64])", "b = nl.load(x[0:128, 0:64])"),
    ),
    "a grid with an axis of one element": (
        lines("i, j = nl.mgrid[0:1, 0:64]", "a = nl.load(x[0, j])"),
        "a = nl.load(x[0:1, 0:64])",
    ),
    "a column of a vector": (
        lines("i = nl.arange(64)[:, None]", "a = nl.load(v[i])"),
        "a = nl.load(v.reshape((v.shape[0], 1))[0:64, 0:1])",
    ),
    "a row of a vector": (
        lines("j = nl.arange(64)[None, :]", "a = nl.load(v[j])"),
        "a = nl.load(v.reshape((1, v.shape[0]))[0:1, 0:64])",
    ),
    "iota into a part of a tile": (
        "t[0:4, 0:8] = nisa.iota(nl.arange(8)[None, :] - nl.arange(4)[:, None], dtype=nl.int32)",
        "nisa.iota(dst=t[0:4, 0:8], pattern=[[1, 8]], offset=0, channel_multiplier=-1)",
    ),
    "iota as an operand": (
        "nl.store(out, nisa.iota(3 * nl.arange(4)[:, None] + k, dtype=np.int32))",
        lines(
            "positions = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)",
            "nisa.iota(dst=positions, pattern=[[0, 1]], offset=k, channel_multiplier=3)",
            "nl.store(out, positions)",
        ),
    ),
    "affine_select of a tile with axes that the predicate lacks": (
        lines(
            "i = nl.arange(128)[:, None]",
            "t = nisa.affine_select(i < 64, on_true_tile=x, on_false_value=0)",
        ),
        lines(
            "t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)",
            "nisa.affine_select(dst=t, pattern=[[0, x.shape[1]]], offset=-64, "
            "channel_multiplier=1, cmp_op=nl.less, on_true_tile=x, on_false_value=0)",
        ),
    ),
    "a product that replaces the one before it": (
        "acc[0:64, 0:64] = nisa.nc_matmul(a, b)",
        "nisa.nc_matmul(dst=acc[0:64, 0:64], accumulate=False, stationary=a, moving=b)",
    ),
    "a reduction of the last axes": (
        "s = nisa.tensor_reduce(np.add, t, axis=[2, 3])",
        lines(
            "s = nl.ndarray((t.shape[0], t.shape[1]), dtype=t.dtype, buffer=nl.sbuf)",
            "nisa.tensor_reduce(dst=s, op=nl.add, data=t, axis=[2, 3])",
        ),
    ),
    "a transpose by DMA": (
        "s = nisa.dma_transpose(t, axes=(2, 1, 0))",
        lines(
            "s = nl.ndarray((t.shape[2], t.shape[1], t.shape[0]), dtype=t.dtype, buffer=nl.sbuf)",
            "nisa.dma_transpose(dst=s, src=t, axes=(2, 1, 0))",
        ),
    ),
    "the more precise dtype of two tiles": (
        lines(
            "a = nl.ndarray((4, 4), dtype=nl.bfloat16, buffer=nl.sbuf)",
            "b = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum)",
            "c = nisa.tensor_tensor(a, b, op=nl.add)",
        ),
        lines(
            "a = nl.ndarray((4, 4), dtype=nl.bfloat16, buffer=nl.sbuf)",
            "b = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum)",
            "c = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)",
            "nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)",
        ),
    ),
    "names for entry points": (
        lines(
            "mark = nki.trace",
            "run = nki.simulate_kernel",
            "",
            "@mark",
            "def kernel(x):",
            "    return x",
            "",
            "y = run(kernel, a)",
        ),
        lines(
            "mark = nki.jit",
            "",
            "@mark",
            "def kernel(x):",
            "    return x",
            "",
            "y = nki.simulate(kernel)(a)",
        ),
    ),
    "a traced function that is launched": (
        lines("@nki.trace", "def k(x):", "    return x", "", "y = nki.simulate_kernel(k, a)"),
        lines("@nki.jit", "def k(x):", "    return x", "", "y = nki.simulate(k)(a)"),
    ),
    "operators of NumPy that are passed to a kernel": (
        KERNEL.format("x, op=np.max") + "return x\n\ny = kernel(a, np.add)",
        KERNEL.format("x, op=nl.maximum") + "return x\n\ny = kernel(a, nl.add)",
    ),
    "two outputs": (
        KERNEL.format("x, y, z") + "nl.store(y, nl.load(x))\n"
        "    for k in range(2):\n        nl.store(z[k], nl.load(x[k]))  # rows\n\n"
        "nki.simulate_kernel(kernel, a, b, c)",
        KERNEL.format("x, y, z")
        + "y_result = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=y_result, src=y)\n"
        "    z_result = nl.ndarray(z.shape, dtype=z.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=z_result, src=z)\n"
        "    nl.store(y_result, nl.load(x))\n"
        "    for k in range(2):\n        nl.store(z_result[k], nl.load(x[k]))  # rows\n"
        "    return y_result, z_result\n\n"
        "b[...], c[...] = nki.simulate(kernel)(a, b, c)",
    ),
    "tiles of shapes that differ": (
        lines(
            "a = nl.load(x[0:128, 0:1])",
            "b = nl.load(y[0:1, 0:64])",
            "c = nl.multiply(a, b)",
        ),
        lines(
            "a = nl.load(x[0:128, 0:1])",
            "b = nl.load(y[0:1, 0:64])",
            "c = nl.multiply(nl.broadcast_to(a, (128, 64)), nl.broadcast_to(b, (128, 64)))",
        ),
    ),
    "a comprehension with a condition": (
        KERNEL.format("x") + "big = [k for k in range(4) if k > 1]\n    return x",
        KERNEL.format("x") + "big = []\n    for k in range(4):\n        if k > 1:\n"
        "            big.append(k)\n    return x",
    ),
    "a number for one element": (
        KERNEL.format("x") + "t = nl.ndarray((4, 4), dtype=nl.uint32, buffer=nl.sbuf)\n"
        "    for k in nl.static_range(4):\n        t[0, k] = k * 5\n    return x",
        KERNEL.format("x") + "t = nl.ndarray((4, 4), dtype=nl.uint32, buffer=nl.sbuf)\n"
        "    for k in nl.static_range(4):\n        nisa.memset(dst=t[0:1, k:k + 1], value=k * 5)\n"
        "    return x",
    ),
    "blocks of a tensor in HBM": (
        "t = nl.ndarray((4, nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.shared_hbm)",
        "t = nl.ndarray((4, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)",
    ),
}


@each_case("before, after", list(PAIRS.values()), ids=list(PAIRS))
def test_a_form_of_beta1(before, after):
    outcome = upgrade_text(module(before), "beta1")
    assert outcome.after == module(after)
    assert outcome.findings == []
    assert upgrade_text(outcome.after).after == outcome.after


STAY = {
    "a comprehension of 0.3.0": KERNEL.format("x") + "t = [k for k in range(2)]\n    return x",
    "strings as keys": KERNEL.format("x") + 'd = {"a": 1}\n    d["b"] = 2\n    return x',
    "integers as keys on the host": "table = {0: 1}\ntable[1, 2] = 3",
    "a kernel that returns its output": (
        KERNEL.format("x") + "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(x))\n    return out\n\ny = kernel(a)"
    ),
    "a shape in an annotation": (
        "import nki.typing as nt\n\n\ndef f(x: nt.tensor[128, 64]):\n    return x"
    ),
    "NumPy for another function": "def host(f):\n    return f\n\nhost(np.add)\nhost(np.int32)",
    "NumPy in an annotation of a kernel": KERNEL.format("x, s: np.float32 = 1.0") + "return x",
    "a counter in a plain loop": (
        KERNEL.format("x") + "n = 0\n    for k in range(4):\n        n += 1\n    return x"
    ),
    "a kernel that reads a global": "SCALE = 2.0\n\n\n" + KERNEL.format("x") + "return x * SCALE",
    "a register and the generation": "r = nisa.register_alloc(7)\nv = nisa.get_nc_version()",
    "an instruction of 0.3.0": "nisa.iota(dst=t, pattern=[[1, 4]], channel_multiplier=1)",
    "an attribute of another object": "class Run:\n    simulate_kernel = 1\n\nRun.simulate_kernel",
}


@each_case("text", list(STAY.values()), ids=list(STAY))
def test_code_of_030_stays(text):
    outcome = upgrade_text(module(text))
    assert outcome.after == module(text)
    assert outcome.findings == []


LEFT = {
    "a quotient by what may be a tile": (
        KERNEL.format("x, size") + "t = nl.load(x)\n    y = nl.sum(t, axis=1) / (size * size)\n"
        "    return x",
        "MG-341",
    ),
    "an index that depends on a branch": (
        KERNEL.format("x, c") + "if c:\n        i = nl.arange(4)[:, None]\n    else:\n"
        "        i = nl.arange(8)[:, None]\n    y = nl.load(x[i, 0])\n    return x",
        "MG-105",
    ),
    "an offset that is another one at the use": (
        KERNEL.format("x") + "k = 0\n    i = k + nl.arange(4)[:, None]\n    k = 4\n"
        "    y = nl.load(x[i, 0])\n    return x",
        "MG-105",
    ),
    "an offset that a loop changes": (
        KERNEL.format("x") + "k = 0\n    i = k + nl.arange(4)[:, None]\n    for j in range(3):\n"
        "        y = nl.load(x[i, 0])\n        k = j\n    return x",
        "MG-105",
    ),
    "an index that is transposed": (
        "i, j = nl.mgrid[0:4, 0:4]\na = nl.load(f()[j, i])",
        "MG-105",
    ),
    "rows of a part of a tensor": (
        KERNEL.format("x, y") + "part = x[1]\n    rows = nl.load(y)\n"
        "    z = nl.load(part[rows, nl.arange(4)[None, :]])\n    return x",
        "MG-110",
    ),
    "an output of a kernel that is not launched here": (
        KERNEL.format("x, out") + "nl.store(out, nl.load(x))",
        "MG-132",
    ),
    "an output of a kernel whose result is used": (
        KERNEL.format("x, out") + "nl.store(out, nl.load(x))\n\ny = kernel(a, b)",
        "MG-132",
    ),
    "an instruction with a result of unknown shape": (
        "t = nisa.local_gather(src, index, 4, 64)",
        "MG-102",
    ),
    "a predicate of two parts": (
        "i, j = nl.mgrid[0:4, 0:4]\n"
        "t = nisa.affine_select(pred=(i < j) & (j < 2), on_true_tile=x, on_false_value=0)",
        "MG-116",
    ),
    "an expression with a product of indices": (
        "i, j = nl.mgrid[0:4, 0:4]\nt = nisa.iota(i * j, dtype=nl.int32)",
        "MG-115",
    ),
    "a tuple as a key": (
        KERNEL.format("x") + "d = {}\n    d[0, 1] = nl.load(x)\n    return x",
        "MG-112",
    ),
    "a branch on the index of a loop": (
        KERNEL.format("x") + "for k in nl.affine_range(4):\n        if k == 0:\n            pass\n"
        "    return x",
        "MG-133",
    ),
    "a lambda": (KERNEL.format("x") + "f = lambda t: t\n    return f(x)", "MG-136"),
    "a comprehension as an argument": (
        KERNEL.format("x") + "return nl.load(x[max(k for k in (1, 2))])",
        "MG-136",
    ),
    "a comprehension whose variable is used": (
        KERNEL.format("x") + "k = 1\n    t = [k for k in range(2)]\n    return x",
        "MG-136",
    ),
    "a nested function": (
        KERNEL.format("x") + "def inner(t):\n        return t\n    return inner(x)",
        "MG-136",
    ),
}


@each_case("text, rule", list(LEFT.values()), ids=list(LEFT))
def test_what_is_not_certain_is_a_finding(text, rule):
    outcome = upgrade_text(module(text), "beta1")
    assert outcome.problem == ""
    assert rule in {finding.rule for finding in outcome.findings}
    assert upgrade_text(outcome.after, "beta1").after == outcome.after


@each_case(
    ("dtype", "text"),
    [
        ("np.float32", "nisa.dma_copy(dst=t[...], src=x)"),
        ("nl.bfloat16", "nisa.tensor_copy(dst=t[...], src=nl.load(x, dtype=nl.bfloat16))"),
    ],
)
def test_a_load_with_the_dtype_of_its_tile_is_one_transfer(dtype, text):
    """Another dtype rounds before the tile does, so it stays a tile of its own."""
    before = (
        "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\nimport numpy as np\n\n\n"
        "@nki.jit\ndef kernel(x):\n"
        "    t = nl.ndarray((128, 64), dtype=np.float32, buffer=nl.sbuf)\n"
        f"    t[...] = nl.load(x, dtype={dtype})\n    return t\n"
    )
    assert f"    {text}\n" in upgrade_text(before).after
