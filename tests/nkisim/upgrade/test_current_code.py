"""Code that runs in the target version stays as it is; what hides an old form is reported."""

import ast

from each_case import each_case
from nkisim.upgrade import TARGETS, upgrade_text
from nkisim.versions import names_of, parameters

HEAD = """\
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl


"""
TILE = "    t = nl.ndarray((128, 8, 4), dtype=nl.float32, buffer=nl.sbuf)\n"


def kernel(body, parameters="x, y"):
    return f"{HEAD}@nki.jit\ndef kernel({parameters}):\n{body}    return x\n"


STAYING = {
    "generation in a condition": kernel(
        "    if nisa.get_nc_version() >= nisa.nc_version.gen4:\n        pass\n"
    ),
    "generation in a name": kernel(
        "    found = nisa.get_nc_version()\n    new = found > nisa.nc_version.gen3\n"
    ),
    "member of an enum": kernel("    new = nisa.nc_version(3) <= nisa.get_nc_version()\n"),
    "register": kernel("    r = nisa.register_alloc(0)\n    new = r < 4\n    more = r + 1\n"),
    "argument": kernel("    wide = y > 4\n    half = y / 2\n"),
    "is not None": kernel("    if y is not None and None is not x:\n        y = x is None\n"),
    "reduction of a helper's tile": (
        HEAD + "def total(dst, data):\n"
        "    nisa.tensor_reduce(dst=dst, op=nl.add, data=data, axis=1)\n"
    ),
    "deprecated loops": kernel(
        "    for i in nl.affine_range(4):\n        pass\n"
        "    for i in nl.sequential_range(4):\n        pass\n"
    ),
    "random numbers": kernel("    nisa.rng(dst=y)\n"),
    "a register from an integer": kernel("    nisa.register_move(y, 7)\n"),
    "a matmul that overwrites zeros": kernel(
        "    acc = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.psum)\n"
        "    for k in range(4):\n        nisa.nc_matmul(dst=acc, stationary=x, moving=y)\n"
    ),
    "small integers": kernel(
        "    t = nl.ndarray((128, 4), dtype=nl.int32, buffer=nl.sbuf)\n    s = nl.copy(t)\n"
    ),
    "tiles in a list": kernel("    tiles = [nl.load(x), nl.load(y)]\n    tiles[0] = tiles[1]\n"),
}


@each_case("name", list(STAYING))
def test_code_that_runs_stays(name):
    text = STAYING[name]
    for target in TARGETS:
        outcome = upgrade_text(text, "auto", target)
        assert outcome.after == text
        assert outcome.findings == []


def test_an_instruction_with_dst_by_position_stays():
    """In 0.6.0 a call returns the instruction; its arguments are those of the version."""
    for module, short in (("nki.isa", "nisa"), ("nki.collectives", "ncc"), ("nki.language", "nl")):
        for name in names_of("0.6.0")[module]["functions"]:
            found = ast.parse(f"lambda {parameters('0.6.0', module, name)}: 0", mode="eval").body
            count = len(found.args.args) - len(found.args.defaults)
            given = ", ".join(f"a{number}" for number in range(count))
            text = f"{HEAD}one = {short}.{name}({given})\n"
            outcome = upgrade_text(text, "auto", "0.6.0")
            assert outcome.after == text, name
            assert [f for f in outcome.findings if f.rule == "MG-102"] == [], name


def test_identity_of_other_values_is_compared_by_value():
    after = upgrade_text(
        kernel("    if y is True or x is not None is not y:\n        pass\n")
    ).after
    assert "if y == True or x is not None is not y:" in after


def test_what_the_target_takes_is_counted():
    """The report states that more can be changed for files of a known release."""
    text = STAYING["deprecated loops"]
    assert upgrade_text(text, "auto", "0.5.0").accepted == 0
    assert upgrade_text(text, "auto", "0.6.0").accepted == 2
    known = upgrade_text(text, "0.5", "0.6.0")
    assert known.accepted == 0
    assert "range(4)" in known.after
    assert "affine" not in known.after


def test_a_form_of_beta_2_shows_the_release_of_a_file():
    """Then forms that 0.3.0 reads otherwise are changed as well."""
    reduced = "    nisa.tensor_reduce(dst=y, op=nl.add, data=x, axis=1)\n"
    assert upgrade_text(kernel(reduced)).changes == []
    shown = upgrade_text(kernel("    nisa.register_move(r, imm=7)\n" + reduced))
    assert shown.since == "beta2"
    assert "axis=len(x.shape) - 1)" in shown.after
    mistaken = upgrade_text(kernel(reduced, "x, y, *, z"))
    assert mistaken.since == "0.3"
    assert "axis=1)" in mistaken.after
    assert [c.rule for c in shown.changes if c.review] == ["MG-306"]


# -- Beta 2 ----------------------------------------------------------------------------------------

AXES = {
    "rank is not visible": (
        "    nisa.tensor_reduce(dst=y, op=nl.add, data=x, axis=1)\n",
        "axis=len(x.shape) - 1)",
    ),
    "part of a tile": (
        TILE + "    nisa.tensor_reduce(dst=y, op=nl.add, data=t[:, y], axis=[1])\n",
        "axis=len(t[:, y].shape) - 1)",
    ),
    "part of a tile with two dimensions": (
        TILE + "    nisa.tensor_reduce(dst=y, op=nl.add, data=t[:, 0], axis=[1])\n",
        "axis=[1])",
    ),
    "shape of dst is not visible": (
        TILE + "    nisa.tensor_reduce(y, nl.add, t, 1)\n",
        "nisa.tensor_reduce(y, nl.add, t, 2)",
    ),
    "two dimensions": (
        "    a, b = x.shape\n    nisa.tensor_reduce(dst=y, op=nl.add, data=x, axis=1)\n",
        "axis=1)",
    ),
    "another axis": (TILE + "    nisa.tensor_reduce(y, nl.add, t, 2)\n", "t, 2)"),
}


@each_case("name", list(AXES))
def test_axis_1_of_beta_2_is_the_last_dimension(name):
    before, new = AXES[name]
    outcome = upgrade_text(kernel(before), "beta2")
    assert new in outcome.after
    assert outcome.findings == []
    changed = outcome.after != kernel(before)
    assert [c.rule for c in outcome.changes if c.review] == ["MG-306"] * changed
    assert upgrade_text(outcome.after, "beta2").changes == []
    assert upgrade_text(kernel(before), "beta1").after == kernel(before)


DTYPES = {
    "dtype of dst is not visible": (
        "    nisa.tensor_copy(dst=y, src=x, dtype=nl.bfloat16)\n",
        "    nisa.tensor_copy(dst=y, src=x)\n",
    ),
    "dst by position": (
        "    nisa.activation(y, nl.exp, x, dtype=y.dtype, scale=2.0)\n",
        "    nisa.activation(y, nl.exp, x, scale=2.0)\n",
    ),
    "one of several instructions": (
        "    nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.add, dtype=x.dtype)\n",
        "    nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.add)\n",
    ),
}


@each_case("name", list(DTYPES))
def test_an_instruction_with_dst_has_no_dtype(name):
    before, after = DTYPES[name]
    outcome = upgrade_text(kernel(before))
    assert outcome.after == kernel(after)
    assert [(c.rule, bool(c.review)) for c in outcome.changes] == [("MG-331", True)]
    other = kernel(TILE + "    nisa.tensor_copy(dst=t, src=x, dtype=nl.bfloat16)\n")
    assert upgrade_text(other).after == other
    assert [f.rule for f in upgrade_text(other).findings] == ["MG-331"]


TENSOR = "import nki.tensor as ntensor\n"
CONSTANTS = {
    "identity": (
        "    c = nl.shared_constant(ntensor.identity(64, dtype=nl.int8), dtype=nl.bfloat16)\n",
        "",
        "    c = nl.shared_identity_matrix(64, dtype=nl.bfloat16)\n",
    ),
    "identity of its own type": (
        "    c = nl.shared_constant(ntensor.identity(y, dtype=nl.bfloat16))\n",
        "",
        "    c = nl.shared_identity_matrix(y, dtype=nl.bfloat16)\n",
    ),
    "steps": (
        "    c = nl.shared_constant(ntensor.arange(0, 8, 1, dtype=nl.int32), dtype=nl.float32)\n",
        "CONSTANT = (np.arange(0, 8, 1, dtype=np.int32)).astype(np.float32)\n\n\n",
        "    c = nl.shared_constant(CONSTANT)\n",
    ),
    "arithmetic, twice": (
        "    c = nl.shared_constant(ntensor.zeros((4, 4), dtype=nl.int8) + 1)\n"
        "    d = nl.shared_constant(ntensor.ones((4, 4), dtype=nl.int8))\n",
        "CONSTANT = np.zeros((4, 4), dtype=np.int8) + 1\n\n\n"
        "CONSTANT_2 = np.ones((4, 4), dtype=np.int8)\n\n\n",
        "    c = nl.shared_constant(CONSTANT)\n    d = nl.shared_constant(CONSTANT_2)\n",
    ),
}


@each_case("name", list(CONSTANTS))
def test_a_constant_is_made_outside_of_the_kernel(name):
    """A kernel cannot call NumPy; nki.tensor is gone."""
    before, array, after = CONSTANTS[name]
    outcome = upgrade_text(TENSOR + kernel(before))
    numpy = "import numpy as np\n" if array else ""
    wanted = kernel(after).replace("@nki.jit", f"{array}@nki.jit")
    assert outcome.after == numpy + wanted
    assert outcome.findings == []


def test_a_constant_of_the_arguments_is_reported():
    text = TENSOR + kernel("    c = nl.shared_constant(ntensor.zeros((y, 4), dtype=nl.int8))\n")
    assert upgrade_text(text).after == text
    assert [f.rule for f in upgrade_text(text).findings] == ["MG-205"]


# -- later versions --------------------------------------------------------------------------------


def test_a_pattern_of_a_view_stays():
    """AWS's documents contradict each other about it."""
    text = kernel(TILE + "    u = t[0:128, 2:4].ap([[32, 128], [1, 4]], offset=0)\n")
    for since in ("auto", "0.4"):
        outcome = upgrade_text(text, since, "0.6.0")
        assert outcome.after == text
        assert [f.rule for f in outcome.findings] == ["MG-502"]
    for whole in ("t.ap(", "tiles[0].ap("):
        other = kernel(TILE + f"    tiles = [t]\n    u = {whole}[[32, 128], [1, 4]], offset=0)\n")
        assert upgrade_text(other, "auto", "0.6.0").findings == []


HIDDEN = {
    "arguments of the function": ("def f(*a):\n    nisa.dma_copy(*a)\n", ["MG-401"]),
    "behind operands": ("def f(d, *a):\n    nisa.dma_transpose(d, *a)\n", ["MG-402"]),
    "visible and short": ("a = (p, q)\nnisa.dma_copy(*a)\n", []),
    "visible and long": ("a = (p, q, r)\nnisa.dma_copy(*a)\n", ["MG-401"]),
    "by keyword": ("nisa.dma_copy(**a)\n", []),
    "function without moved arguments": ("def f(*a):\n    nisa.tensor_copy(*a)\n", []),
}


@each_case("name", list(HIDDEN))
def test_a_star_that_hides_a_moved_argument_is_reported(name):
    text, rules = HIDDEN[name]
    outcome = upgrade_text(HEAD + text, "auto", "0.4.0")
    assert outcome.after == HEAD + text
    assert [f.rule for f in outcome.findings] == rules


def test_a_star_is_reported_in_files_of_beta_2():
    text = HEAD + "def f(*a):\n    nisa.nc_matmul(*a)\n    nisa.dma_compute(d, *a)\n"
    assert [f.rule for f in upgrade_text(text, "beta2").findings] == ["MG-325", "MG-307"]
    assert upgrade_text(text).findings == []


SHADOWS = {
    "class": "class range:\n    pass\n\n\n",
    "function": "def range(n):\n    return n\n\n\n",
    "import": "from other import range\n",
}


@each_case("name", list(SHADOWS))
def test_another_range_of_the_file_is_not_used(name):
    text = HEAD + SHADOWS[name] + "def f(n):\n    for i in nl.affine_range(n):\n        pass\n"
    outcome = upgrade_text(text, "0.5", "0.6.0")
    assert outcome.after == text
    assert [f.rule for f in outcome.findings] == ["MG-603"]


def test_another_range_of_the_file_yields_no_indices():
    text = (
        HEAD + SHADOWS["class"] + "t = nl.ndarray((128, 8, 4), dtype=nl.float32, buffer=nl.sbuf)\n"
        "for k in range(4):\n    nisa.dma_copy(dst=o, src=t[k])\n"
        "r = nisa.register_alloc(4)\nrange(r)\n"
    )
    outcome = upgrade_text(text, "0.4", "0.6.0")
    assert outcome.after == text
    assert [f.rule for f in outcome.findings] == ["MG-503"]


LOOP = "def f(x, y, n):\n    for i in nl.dynamic_range(n):\n"
USE = "        nisa.dma_copy(dst=y, src=x.ap([[1, 1]], scalar_offset=i))\n"
INNER = "        for k in range(4):\n            if k == n:\n                {}\n"


@each_case("word", ["break", "continue"])
def test_a_statement_of_an_inner_loop_leaves_no_outer_body(word):
    outcome = upgrade_text(HEAD + LOOP + INNER.format(word) + USE, "0.5", "0.6.0")
    assert outcome.findings == []
    assert "nl.fori_loop(0, n, body)" in outcome.after
    last = LOOP + INNER.format("pass") + f"        else:\n            {word}\n" + USE
    kept = upgrade_text(HEAD + last, "0.5", "0.6.0")
    assert kept.after == HEAD + last
    assert [f.rule for f in kept.findings] == ["MG-601"]
