"""The steps from 0.3.0 on: each change of the migration guide, and code that must stay."""

import ast
import itertools

import pytest

from each_case import each_case
from nkisim.upgrade import RULES, TARGETS, upgrade_text
from nkisim.upgrade.later.positions import moved_functions
from nkisim.versions import names_of, parameter_names

HEAD = (
    "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.collectives as ncc\n"
)
STEPS = list(itertools.pairwise(TARGETS))


def later(text, since="0.3", target="0.6.0"):
    return upgrade_text(HEAD + text, since, target)


def rules_of(places):
    return {place.rule for place in places}


# -- the migration guide of v2.32.0 ----------------------------------------------------------------

SBUF = "nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)"
GUIDE = {
    "0.4: dma_transpose with dst of a lower rank": (
        "MG-408",
        "0.3",
        "x = nl.ndarray((2048, 1, 1, 96), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "y = nl.ndarray((96, 1, 2048), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "nisa.dma_transpose(y, x, (3, 1, 2, 0))\n",
        "x = nl.ndarray((2048, 1, 1, 96), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "y = nl.ndarray((96, 1, 2048), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "nisa.dma_transpose(y.reshape((96, 1, 1, 2048)), x, (3, 1, 2, 0))\n",
    ),
    "0.4: neuronxcc in a kernel": (
        "MG-405",
        "0.3",
        "import neuronxcc.nki.language as old\n",
        "import nki.language as old\n",
    ),
    "0.4: a copy with a dynamic source": (
        "MG-404",
        "0.3",
        "nisa.tensor_copy_dynamic_src(dst=a, src=b.ap([[8, 128], [1, 4]], scalar_offset=reg))\n",
        "nisa.tensor_copy(dst=a, src=b.ap([[8, 128], [1, 4]], scalar_offset=reg))\n",
    ),
    "0.4: bytes of SBUF per partition": (
        "MG-407",
        "0.3",
        "rows = nl.tile_size.total_available_sbuf_size // (n * 2)\n",
        "rows = nl.tile_size.sbuf_fmax_bytes // (n * 2)\n",
    ),
    "0.5: rsqrt of a PSUM tile": (
        "MG-505",
        "0.4",
        "def f(total):\n    p = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.psum)\n"
        "    nisa.tensor_copy(dst=total, src=nl.rsqrt(p[0:64, 0:1]))\n",
        "def f(total):\n    p = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.psum)\n"
        "    p_sbuf = nl.ndarray(p[0:64, 0:1].shape, dtype=p.dtype, buffer=nl.sbuf)\n"
        "    nisa.tensor_copy(dst=p_sbuf, src=p[0:64, 0:1])\n"
        "    nisa.tensor_copy(dst=total, src=nl.rsqrt(p_sbuf))\n",
    ),
    "0.5: reshape with two names of a shape": (
        "MG-501",
        "0.4",
        f"t = {SBUF}\nu = t.reshape(new_shape=(128, 2, 4))\n",
        f"t = {SBUF}\nu = t.reshape((128, 2, 4))\n",
    ),
    "0.6: a loop with a bound in a register": (
        "MG-601",
        "0.5",
        "def f(x, one, bound):\n"
        "    for col in nl.dynamic_range(bound):\n"
        "        nisa.dma_copy(dst=one, src=x.ap([[1, 1], [1, 1]], scalar_offset=col))\n",
        "def f(x, one, bound):\n"
        "    def body(col):\n"
        "        nisa.dma_copy(dst=one, src=x.ap([[1, 1], [1, 1]], scalar_offset=col))\n"
        "\n"
        "    nl.fori_loop(0, bound, body)\n",
    ),
    "0.6: a loop while a register is not zero": (
        "MG-602",
        "0.5",
        "def f(total, part, left, one):\n"
        "    go = nisa.register_alloc()\n"
        "    nisa.register_load(go, left)\n"
        "    while go:\n"
        "        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)\n"
        "        nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)\n"
        "        nisa.register_load(go, left)\n",
        "def f(total, part, left, one):\n"
        "    go = nisa.register_alloc()\n"
        "    nisa.register_load(go, left)\n"
        "    def body(go):\n"
        "        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)\n"
        "        nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)\n"
        "        nisa.register_load(go, left)\n"
        "        return go\n"
        "\n"
        "    nl.while_loop(go, body)\n",
    ),
}


@each_case("name", list(GUIDE))
def test_the_changes_of_the_guide(name):
    rule, since, before, after = GUIDE[name]
    outcome = later(before, since, RULES[rule].to)
    assert outcome.after == HEAD + after
    assert rules_of(outcome.changes) == {rule}
    assert outcome.findings == []


def test_a_launch_grid_is_reported():
    text = "@nki.jit\ndef k(x):\n    return x\n\nk[2](a)\n"
    outcome = later(text, "0.4", "0.5.0")
    assert outcome.after == HEAD + text
    assert rules_of(outcome.findings) == {"MG-508"}
    assert later(text, "0.3", "0.4.0").findings == []


# -- positions -------------------------------------------------------------------------------------


@each_case("older, newer", STEPS)
def test_every_moved_argument_gets_the_name_that_it_had(older, newer):
    """Calls of all functions: arguments bind in the new version as positions did in the old one."""
    wanted, rows = [], []
    for module, short in (("nki.isa", "nisa"), ("nki.language", "nl"), ("nki.collectives", "ncc")):
        for name in names_of(older)[module]["functions"]:
            old, new = (parameter_names(v, module, name) for v in (older, newer))
            if new:
                wanted.append((name, old, new))
                rows.append(f"{short}.{name}({', '.join(f'a{i}' for i in range(len(old)))})")
    after = later("\n".join(rows) + "\n", older.removesuffix(".0"), newer).after
    calls = [s.value for s in ast.parse(after).body if isinstance(s, ast.Expr)]
    for (name, old, new), call in zip(wanted, calls, strict=True):
        found = dict(zip(new, map(ast.unparse, call.args), strict=False))
        found |= {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg in old}
        assert found == {p: f"a{i}" for i, p in enumerate(old)}, name


def test_only_calls_with_moved_arguments_change():
    assert moved_functions("0.3.0", "0.4.0")["nki.isa", "dma_copy"] == 2
    text = "nisa.dma_copy(d, s)\nnisa.dma_transpose(d, s, (1, 0))\nnisa.tensor_copy(d, s, e, n)\n"
    assert later(text).after == HEAD + text


# -- loops -----------------------------------------------------------------------------------------


def counted(body, tail="", head=""):
    return f"def f(x, y, n):\n{head}    for i in nl.dynamic_range(n):\n{body}{tail}"


USE = "        nisa.dma_copy(dst=y, src=x.ap([[1, 1]], scalar_offset=i))\n"
STAYING_LOOPS = {
    "break": counted(USE + "        if y:\n            break\n"),
    "continue": counted("        if y:\n            continue\n" + USE),
    "return": counted(USE + "        return y\n"),
    "else": counted(USE, "    else:\n        y = 1\n"),
    "one line": "def f(x, n):\n    for i in nl.dynamic_range(n): g(i)\n",
    "name of the body used after": counted("        t = nl.load(x)\n" + USE, "    return t\n"),
    "rebinds a name of the function": counted("        y = nl.load(x)\n" + USE, "    g(y)\n"),
    "rebinds a name from before": counted(
        "        t = nl.load(x)\n" + USE, head="    t = 1\n", tail="    g(x)\n"
    ),
    "carries a value": counted("        g(t)\n        t = nl.load(x)\n" + USE),
    "augmented assignment": counted("        y += 1\n" + USE),
    "walrus": counted("        g(z := 1)\n" + USE),
    "variable in arithmetic": counted("        g(i + 1)\n"),
    "variable as an index": counted("        g(x[i])\n"),
    "variable is assigned": counted(USE + "        i = 3\n"),
    "variable is written": counted("        nisa.register_load(i, y)\n"),
    "variable is used after": counted(USE, "    g(i)\n"),
    "global": counted("        global z\n        z = 1\n" + USE),
}


@each_case("name", list(STAYING_LOOPS))
def test_a_loop_whose_body_is_no_function_is_reported(name):
    text = STAYING_LOOPS[name]
    outcome = later(text, "0.5")
    assert outcome.after == HEAD + text
    assert rules_of(outcome.findings) == {"MG-601"}


WHILE = "    while r:\n        nisa.register_load(r, n)\n"
START = "def f(x, n):\n    r = nisa.register_alloc(1)\n"


@each_case(
    "text",
    [
        START + WHILE + "    nisa.register_store(x, r)\n",
        START + "    for k in range(2):\n" + WHILE.replace("    ", "        "),
        START + WHILE + "        r = nisa.register_alloc(2)\n",
        START + WHILE + "        break\n",
        "def f(n, r):\n" + WHILE,
        START + "    for k in range(2):\n        g(r)\n        for j in range(2):\n"
        "            r = nisa.register_alloc(2)\n"
        + WHILE.replace("    ", "            ", 1).replace("        nisa", "                nisa"),
    ],
)
def test_a_register_that_is_read_later_is_reported(text):
    outcome = later(text, "0.5")
    assert outcome.after == HEAD + text
    assert rules_of(outcome.findings) == {"MG-602"}


def test_a_loop_outside_of_functions():
    after = later("for i in nl.dynamic_range(n):\n    g(i)\n", "0.5").after
    assert after == HEAD + "def body(i):\n    g(i)\n\nnl.fori_loop(0, n, body)\n"
    text = "for i in nl.dynamic_range(n):\n    g(i)\n\ndef f():\n    return i\n"
    assert rules_of(later(text, "0.5").findings) == {"MG-601"}


def test_loops_in_loops_and_after_loops():
    text = (
        "def f(x, y, n):\n"
        "    for i in nl.dynamic_range(2, n):  # rows\n"
        "        t = nl.load(x)\n"
        "        for j in nl.dynamic_range(0, 8, step=2):\n"
        "            g(t, i, j)\n"
        "        # last of the rows\n"
        "    for i in nl.dynamic_range(n):\n"
        "        t = nl.load(y)\n"
        "        g(t, i, i)\n"
    )
    after = later(text, "0.5").after
    assert after == HEAD + (
        "def f(x, y, n):\n"
        "    def body(i):  # rows\n"
        "        t = nl.load(x)\n"
        "        def body_2(j):\n"
        "            g(t, i, j)\n"
        "\n"
        "        nl.fori_loop(0, 8, body_2, step=2)\n"
        "        # last of the rows\n"
        "\n"
        "    nl.fori_loop(2, n, body)\n"
        "    def body_3(i):\n"
        "        t = nl.load(y)\n"
        "        g(t, i, i)\n"
        "\n"
        "    nl.fori_loop(0, n, body_3)\n"
    )


# -- partial rules: what is reported ---------------------------------------------------------------

TILE3 = "t = nl.ndarray((128, 4, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
REPORTED = {
    "dst of unknown size": (
        "MG-408",
        "y = nl.ndarray((n, 1, 64), dtype=nl.float32, buffer=nl.hbm)\n"
        "nisa.dma_transpose(dst=y, src=x, axes=(3, 1, 2, 0))\n",
    ),
    "transpose of a tile of unknown size": (
        "MG-412",
        "nisa.nc_transpose(dst=y, data=x, engine=nisa.engine.vector)\n",
    ),
    "pattern of a view of a view": (
        "MG-502",
        f"t = {SBUF}\nu = t[0:64]\nv = u.ap([[8, 4], [1, 8]])\n",
    ),
    "pattern of a part of an argument": (
        "MG-502",
        "@nki.jit\ndef k(x):\n    return x[1:4].ap([[8, 4], [1, 8]], offset=8)\n",
    ),
    "dynamic pattern of a view with fewer dimensions": (
        "MG-502",
        f"{TILE3}v = t[0:4, 1].ap([[8, 4], [1, 8]], scalar_offset=r, indirect_dim=1)\n",
    ),
    "rank is used": ("MG-503", f"{TILE3}print(t[2].shape)\n"),
    "index of unknown kind": ("MG-503", f"{TILE3}nisa.dma_copy(dst=o, src=t[k])\n"),
    "rsqrt of a result": ("MG-505", "y = nl.rsqrt(nl.matmul(a, b, transpose_x=True))\n"),
    "rsqrt that may not run": (
        "MG-505",
        "p = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.psum)\ny = nl.rsqrt(p) if c else p\n",
    ),
    "other name range": ("MG-603", "range = 4\nfor k in nl.affine_range(4):\n    pass\n"),
    "register in range": ("MG-605", "r = nisa.register_alloc(4)\nfor k in range(r):\n    pass\n"),
    "register in and": ("MG-605", "r = nisa.register_alloc(4)\ny = x and r\n"),
}


@each_case("name", list(REPORTED))
def test_what_cannot_be_rewritten_is_reported(name):
    rule, text = REPORTED[name]
    outcome = later(text)
    assert outcome.after == HEAD + text
    assert rules_of(outcome.findings) == {rule}


REWRITTEN = {
    "index of a loop": (
        f"{TILE3}for k in range(4):\n    nisa.dma_copy(dst=o, src=t[k, 0:2])\n",
        f"{TILE3}for k in range(4):\n    nisa.dma_copy(dst=o, src=t[k:k + 1, 0:2])\n",
    ),
    "states of generators": (
        "nisa.rand_set_state(seeds)\nnisa.rand_get_state(\n    dst=s,\n)\n",
        "nisa.rand_set_state(seeds, engine=nisa.engine.gpsimd)\n"
        "nisa.rand_get_state(\n    dst=s, engine=nisa.engine.gpsimd,\n)\n",
    ),
    "a step without a stop": (
        "for k in nl.static_range(n, step=4):\n    pass\n",
        "for k in range(0, n, 4):\n    pass\n",
    ),
    "an engine imported by name": (
        "from nki.isa import vector_engine as fast\nnisa.tensor_copy(dst=y, src=x, engine=fast)\n",
        "from nki.isa import vector_engine as fast\n"
        "nisa.tensor_copy(dst=y, src=x, engine=nisa.engine.vector)\n",
    ),
    "index of a loop of NKI": (
        f"{TILE3}for k in nl.affine_range(4):\n    nisa.dma_copy(dst=o, src=t[k])\n",
        f"{TILE3}for k in range(4):\n    nisa.dma_copy(dst=o, src=t[k:k + 1])\n",
    ),
    "bounds by name": (
        "for k in nl.sequential_range(start=0, stop=n):\n    pass\n",
        "for k in range(0, n):\n    pass\n",
    ),
    "decorator with a mode": (
        '@nki.jit(mode="jax")\ndef k(x):\n    return x\n',
        "@nki.jit\ndef k(x):\n    return x\n",
    ),
    "jit as a function": (
        'a = nki.jit(f, "jax")\nb = nki.jit(mode="jax")(f)\nc = nki.jit(g)\n',
        "a = nki.jit(f)\nb = nki.jit()(f)\nc = nki.jit(g)\n",
    ),
    "PSUM bank": (
        "w = nl.tile_size.psum_fmax_bytes\n",
        "w = nl.tile_size.psum_bank_fmax_bytes\n",
    ),
}


@each_case("name", list(REWRITTEN))
def test_other_forms(name):
    before, after = REWRITTEN[name]
    outcome = later(before)
    assert outcome.after == HEAD + after
    assert outcome.findings == []


LOOK_ALIKES = {
    "array of NumPy": "import numpy as np\na = np.zeros(4).reshape(new_shape=(2, 2))\n",
    "tile of two dimensions": f"t = {SBUF}\nprint(t[3].shape)\n",
    "whole tile": f"{TILE3}print(t[...].shape, t[nl.ds(0, 4)].shape)\n",
    "tensor in HBM": "t = nl.ndarray((4, 4, 4), dtype=nl.float32, buffer=nl.hbm)\ng(t[3])\n",
    "pattern of a whole tile": f"t = {SBUF}\nu = t.ap([[8, 128], [1, 8]], offset=0)\n",
    "SBUF": f"t = {SBUF}\ny = nl.rsqrt(t)\n",
    "small transpose": (
        "x = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.nc_transpose(dst=y, data=x, engine=nisa.engine.vector)\n"
    ),
    "engine is stated": "nisa.rng(b, nisa.engine.gpsimd)\nnisa.rng(dst=b, engine=e)\n",
    "while of the host": "def f(n):\n    while n:\n        n -= 1\n",
    "a transpose of one rank": (
        "y = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.hbm)\n"
        "nisa.dma_transpose(dst=y, src=x, axes=(1, 0))\n"
    ),
    "hardware transpose of 128 columns": (
        "x = nl.ndarray((16, 128), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "nisa.dma_transpose(dst=y, src=x, dge_mode=nisa.dge_mode.hwdge)\n"
    ),
    "own names of engines": "class A:\n    vector_engine = 1\n\nA.vector_engine\n",
    "optional: reductions, scales, top k": (
        "nisa.tensor_scalar(dst=a, data=b, op0=nl.add, operand0=1.0)\n"
        "nisa.tensor_reduce(dst=c, op=nl.add, data=a, axis=1)\n"
        "nisa.quantize_mx(dst=a, src=b, dst_scale=c)\n"
        "nisa.max8(dst=a, src=b)\n"
        "y = nl.copy(a)\n"
    ),
}


@each_case("name", list(LOOK_ALIKES))
def test_look_alikes_stay(name):
    outcome = later(LOOK_ALIKES[name])
    assert outcome.after == HEAD + LOOK_ALIKES[name]
    assert outcome.findings == []


# -- the release of a file -------------------------------------------------------------------------

SHOWN = {
    "nisa.dma_copy(dst=a, src=b)": "0.3",
    "nisa.dma_copy(dst=a, src=b, priority=1)": "0.4",
    "y = nl.abs_max(a, b)": "0.4",
    "ncc.rank_id(name='r')": "0.5",
    f"t = {SBUF}\nu = t.permute((0, 1))": "0.5",
    "import torch\nu = torch.ones(4, 4).permute((1, 0))": "0.3",
    "nl.fori_loop(0, 4, body)": "0.6",
    "nisa.tensor_scalar_reduce(a, b, nl.add, 1, nl.add, reduce_res_negate=True)": "0.6",
    "nisa.dma_copy(dst=a, src=b, dge_mode=2)": "beta2",
    "import neuronxcc.nki as old": "beta1",
}


@each_case("text", list(SHOWN))
def test_the_release_of_a_file_follows_from_its_names(text):
    assert upgrade_text(HEAD + text + "\n", "auto", "0.6.0").since == SHOWN[text]


def test_a_position_has_the_meaning_of_the_release_of_the_file():
    """Only a value that is visibly one for the old parameter shows the older release."""
    third = "nisa.dma_copy(a, b, x)\n"
    assert "oob_mode=x" in later(third, "0.3").after
    visible = third.replace("x", "nisa.oob_mode.skip")
    assert "oob_mode=nisa.oob_mode.skip" in later(visible, "auto").after
    for text in (third, third.replace("x", "3")):
        outcome = later(text, "auto")
        assert outcome.after == HEAD + text
        assert outcome.accepted == 1
    assert later(third, "0.4").after == HEAD + third


@each_case("since, target", [("0.5", "0.4.0"), ("0.6", "0.3.0")])
def test_upgrades_go_forward_only(since, target):
    with pytest.raises(ValueError, match="newer than the target"):
        later("", since, target)


def test_a_target_must_be_known():
    with pytest.raises(ValueError, match=r"'0\.9'; accepted are 0\.3\.0"):
        later("", "auto", "0.9")
