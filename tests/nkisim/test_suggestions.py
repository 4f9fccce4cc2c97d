"""The code that a finding contains, pasted as it is, makes the kernel right."""

import linecache
import textwrap

import numpy as np
import pytest

import nkisim
from each_case import each_case
from nkisim import NkiValidationError
from nkisim.diagnostics.formats import finding_text
from nkisim.suggestions import complete
from scripts import imported

from .written_kernels import HEAD, KERNELS, f32

MOST_PASTES = 5


def findings_of(file, name, inputs):
    """What a check of the file's kernel finds, with the kernel's own arguments."""
    with imported(file) as module:
        report = nkisim.check(getattr(module, name), target="gen3", source=True)(*inputs)
    return report.findings


def fixed(file, name, inputs):
    """Pastes the code of the first finding, until none is left; returns how often."""
    for pastes in range(MOST_PASTES + 1):
        linecache.checkcache(str(file))
        found = findings_of(file, name, inputs)
        if not found:
            return pastes
        finding = found[0]
        assert finding.rewrite is not None, str(finding)
        file.write_text(finding.rewrite.applied(file.read_text()))
    raise AssertionError(f"still broken after {MOST_PASTES} pastes:\n{file.read_text()}")


# test_fixed_files.py fixes all of them in their files, by the same code.
@each_case("name", list(KERNELS)[::3])
def test_pasted_code_makes_the_kernel_right(name, tmp_path):
    assert_pasted_is_right(name, tmp_path)


@pytest.mark.slow
@each_case("name", list(KERNELS))
def test_pasted_code_makes_every_kernel_right(name, tmp_path):
    assert_pasted_is_right(name, tmp_path)


def assert_pasted_is_right(name, folder):
    text, inputs, wanted = KERNELS[name]
    file = folder / f"{name}.py"
    file.write_text(text)
    assert fixed(file, name, inputs) >= 1
    with imported(file) as module:
        for target in ("gen2", "gen3", "gen4"):
            kernel = nkisim.simulate(getattr(module, name), strictness="strict", target=target)
            np.testing.assert_allclose(kernel(*inputs), wanted, rtol=1e-5)
            assert not kernel.report.findings, str(kernel.report)


def test_there_are_ten_of_them():
    assert len(KERNELS) >= 10


def source_findings(tmp_path, body):
    """What the source of a kernel with a body shows."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    head = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
    file = tmp_path / "read.py"
    file.write_text(f"{head}@nki.jit\ndef kernel(x):\n{lines}    return x\n")
    return nkisim.check_source(file).findings


def raised(tmp_path, body, *inputs):
    """The finding at which a strict run of a kernel stops."""
    file = tmp_path / "raising.py"
    file.write_text(HEAD + "def kernel(x):\n" + textwrap.indent(body, "    ") + "    return x\n")
    with imported(file) as module, pytest.raises(NkiValidationError) as caught:
        nkisim.simulate(module.kernel, strictness="strict")(*(inputs or (f32(4, 8),)))
    assert str(caught.value.finding.line) in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("body", "rule", "said"),
    [
        ("t = nl.load(x)\nu = t + t\n", "L027", "u = nl.add(t, t)"),
        ("t = nl.load(x)\nu = -t\n", "L027", "u = nl.negative(t)"),
        ("t = nl.load(x)\nm = t > 0\n", "L027", "m = nl.greater(t, 0)"),
        ("t = nl.load(x)\nfor i in range(t):\n    pass\n", "L027", "range(t.shape[0])"),
        ("t = nl.load(x)\nn = len(t)\n", "L027", "n = t.shape[0]"),
        ("t = nl.load(x)\nfor row in t:\n    pass\n", "L027", "loop over range(t.shape[0])"),
        ("t = nl.load(x)\nn = float(t)\n", "L027", "nisa.register_load"),
        ("t = nl.load(x)\nu = np.exp(t)\n", "L027", "u = nl.exp(t)"),
        ("t = nl.load(x)\nu = np.sum(t)\n", "L027", "np.sum"),
        ("t = nl.load(x)\nu = t.sum()\n", "A025", "nl.sum(tensor, axis=1)"),
        ("t = nl.load(x)\nu = t.T\n", "A025", "nisa.nc_transpose"),
        ("t = nl.load(x)\nu = nl.dot(t, t)\n", "A025", "write nisa.nc_matmul(dst, stationary,"),
        (
            "t = nl.load(x)\nnl.tensor_copy(dst=t, src=t)\n",
            "A025",
            "nisa.tensor_copy(dst=t, src=t)",
        ),
        ("t = nl.load(x)\nnisa.mul(t, t, 2.0)\n", "A025", "op0=nl.multiply, operand0=2.0)"),
        ("t = nl.load(x)\nnisa.matmul(t, t, t)\n", "A025", "stationary=t, moving=t"),
        (
            "t = nl.load(x)\nnisa.activation(dst=t, op=nl.exp, dta=t)\n",
            "A025",
            "did you mean data=",
        ),
    ],
)
def test_python_and_invented_names_become_findings(tmp_path, body, rule, said):
    error = raised(tmp_path, body)
    assert error.rule_id == rule
    assert said in str(error)


@pytest.mark.parametrize("product", ["t @ t", "nl.dot(t, t)", "np.matmul(t, t)"])
def test_a_product_has_no_code(tmp_path, product):
    """``nl.matmul`` takes its first operand transposed, and breaks S061 otherwise."""
    error = raised(tmp_path, f"t = nl.load(x)\nu = {product}\n")
    assert error.finding.rewrite is None
    assert "matmul" in error.finding.fix


@pytest.mark.parametrize(
    ("body", "rule", "code"),
    [
        (
            "parts = [n * 2 for n in range(3) if n]\n",
            "L006",
            "parts = []\nfor n in range(3):\n    if n:\n        parts.append(n * 2)",
        ),
        (
            "for i, n in enumerate((1, 2)):\n    assert n > i\n",
            "L017",
            "for i in range(len((1, 2))):\n    n = (1, 2)[i]",
        ),
        (
            "for i, n in enumerate(range(3)):\n    assert n == i\n",
            "L017",
            "for i in range(3):\n    n = i",
        ),
        (
            "for m, n in zip((1, 2), (3, 4)):\n    assert n > m\n",
            "L017",
            "for i in range(len((1, 2))):\n    m = (1, 2)[i]\n    n = (3, 4)[i]",
        ),
        (
            "for i in range(x.shape[0] / 2):\n    assert i\n",
            "L019",
            "for i in range(x.shape[0] // 2):",
        ),
    ],
)
def test_pasted_code_is_in_the_language(tmp_path, body, rule, code):
    file = tmp_path / "source.py"
    file.write_text(HEAD + "def kernel(x):\n" + textwrap.indent(body, "    ") + "    return x\n")
    report = nkisim.check_source(file)
    finding = next(f for f in report if f.rule.id == rule)
    assert "\n".join(finding.rewrite.shown()) == code
    file.write_text(finding.rewrite.applied(file.read_text()))
    assert not nkisim.check_source(file).findings


@pytest.mark.parametrize(
    ("line", "rule", "code"),
    [
        ("t[:, 0:4] = u[:, 0:4]", "L028", "nisa.tensor_copy(dst=t[:, 0:4], src=u[:, 0:4])"),
        ("t[:, 0:4] = x[:, 0:4]", "L028", "nisa.dma_copy(dst=t[:, 0:4], src=x[:, 0:4])"),
        ("t[:, 0:4] = 1.0", "L028", "nisa.memset(dst=t[:, 0:4], value=1.0)"),
        (
            "nisa.tensor_copy(dst=t, src=u, engine=5)",
            "A013",
            "nisa.tensor_copy(dst=t, src=u, engine=nisa.engine.vector)",
        ),
    ],
)
def test_what_goes_on_has_code_too(tmp_path, line, rule, code):
    body = f"t = nl.load(x)\nu = nl.load(x)\n{line}\nnl.store(x, t)\nnl.store(x, u)\nreturn x\n"
    file = tmp_path / "going_on.py"
    file.write_text(HEAD + "def kernel(x):\n" + textwrap.indent(body, "    "))
    found = [f for f in findings_of(file, "kernel", (f32(4, 8),)) if f.rule.id == rule]
    assert [f.rewrite.shown() for f in found] == [[code]]


MISSING_FILLS = {
    "sum": (
        "a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\n"
        "nisa.tensor_tensor(dst=a, data1=a, data2=nl.load(x), op=nl.add)\n",
        lambda x: x,
    ),
    "product": (
        "a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\n"
        "t = nl.load(x)\n"
        "for i in range(3):\n"
        "    nisa.tensor_tensor(dst=a, data1=t, data2=a, op=nl.multiply)\n",
        lambda x: x * x * x,
    ),
    "scaled sum": (
        "a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\n"
        "for i in range(3):\n"
        "    nisa.scalar_tensor_tensor(dst=a, data=nl.load(x), op0=nl.multiply, operand0=2.0,\n"
        "                              op1=nl.add, operand1=a)\n",
        lambda x: 6 * x,
    ),
    "skipped rows": (
        "a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\n"
        "rows = nl.ndarray((4, 1), nl.uint32, buffer=nl.sbuf)\n"
        "nisa.iota(rows, [[0, 1]], offset=2, channel_multiplier=1)\n"
        "source = x.ap([[8, 4], [1, 8]], vector_offset=rows)\n"
        "nisa.dma_copy(dst=a, src=source, oob_mode=nisa.oob_mode.skip)\n",
        lambda x: np.concatenate([x[2:], 0 * x[2:]]),
    ),
}


@each_case("kind", [np.float32, np.int32])
@each_case("name", list(MISSING_FILLS))
def test_a_missing_fill_has_code(name, kind, tmp_path):
    body, wanted = MISSING_FILLS[name]
    file = tmp_path / "filled.py"
    body += (
        "out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\nnl.store(out, a)\nreturn out\n"
    )
    file.write_text(HEAD + "def kernel(x):\n" + textwrap.indent(body, "    "))
    x = np.arange(32).reshape(4, 8).astype(kind)
    assert fixed(file, "kernel", (x,)) == 1
    assert "nisa.memset(dst=a, value=" in file.read_text()
    with imported(file) as module:
        np.testing.assert_array_equal(nkisim.simulate(module.kernel)(x), wanted(x))


HOST = "compute it on the host"
AS_L027 = "as for L027 on this line"


@each_case(
    ("line", "code", "of_run", "of_source"),
    [
        ("u = np.exp(t)", "u = nl.exp(t)", None, "write nl.exp"),
        ("u = math.exp(t)", "u = nl.exp(t)", None, "write nl.exp"),
        ("u = np.add(t, t)", "u = nl.add(t, t)", None, "write nl.add"),
        ("u = np.linalg.norm(t)", None, None, "write nl.sqrt(nl.sum("),
        ("u = np.sum(t, axis=1)", "u = nl.sum(t, axis=1)", None, "write nl.sum"),
        ("u = np.exp(t) + t", "u = nl.add(nl.exp(t), t)", None, AS_L027),
        # The fix of one leaves the other, so that it has a fix of its own.
        ("u = t * np.cbrt(2.0)", "u = nl.multiply(t, np.cbrt(2.0))", HOST, HOST),
        ("u = t + math.exp(1.0)", "u = nl.add(t, math.exp(1.0))", HOST, HOST),
        # On numbers alone.
        ("u = np.cbrt(2.0)", None, HOST, HOST),
        ("u = np.cbrt(t.shape[1])", None, HOST, HOST),
    ],
)
def test_calls_of_other_libraries_have_one_fix(tmp_path, line, code, of_run, of_source):
    file = tmp_path / "foreign.py"
    file.write_text(
        f"import math\n{HEAD}def kernel(x):\n    t = nl.load(x)\n    {line}\n    return x\n"
    )
    run = {f.rule.id: f for f in findings_of(file, "kernel", (f32(4, 8),))}
    source = {f.rule.id: f for f in nkisim.check_source(file, "kernel").findings}
    if "L027" in run:
        rewrite = run["L027"].rewrite
        assert (None if rewrite is None else rewrite.shown()) == (code and [code])
    if of_run is None:  # the run has found it as L027
        assert "L021" not in run
    else:
        assert run["L021"].fix.startswith(of_run)
    assert source["L021"].fix.startswith(of_source)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("t = nl.load(x[2:6, 0:4])", "t = nl.load(x[2:4, 0:4])"),
        ("t = nl.load(x[3 : n + 3, 0:4])", "t = nl.load(x[3:min(n + 3, x.shape[0]), 0:4])"),
        ("nisa.dma_copy(dst=y[0:6], src=x[0:6])", "nisa.dma_copy(dst=y[0:4], src=x[0:4])"),
        # What starts past the end has no part to keep.
        ("t = nl.load(x[4:6, 0:4])", None),
        ("t = nl.load(x[6:9, 0:4])", None),
        ("t = nl.load(x[n + 2 : n + 4, 0:4])", None),
        ("t = nl.load(x[nl.ds(6, 2), 0:4])", None),
        ("t = nl.load(x[0:4, 8:9])", None),
        ("nisa.dma_copy(dst=y[5:6], src=x[3:6])", None),
    ],
)
def test_a_slice_is_clipped_if_it_starts_inside(tmp_path, line, code):
    body = f"n = 4\ny = nl.ndarray((8, 8), x.dtype, buffer=nl.shared_hbm)\n{line}\n"
    finding = raised(tmp_path, body).finding
    assert finding.rule.id == "S009"
    complete([finding])
    assert (None if finding.rewrite is None else finding.rewrite.shown()) == (code and [code])
    if code is None and "5:6" not in line:
        assert finding.fix.startswith("start the slice inside the extent")


def test_unknown_names_stay_unknown(tmp_path):
    assert not hasattr(nkisim.isa, "multiply")
    assert not hasattr(nkisim.language, "tensor_copy")

    def kernel(x):
        assert not hasattr(nkisim.isa, "multiply")
        assert not hasattr(nkisim.language.load(x), "sum")
        return x

    nkisim.simulate(kernel)(f32(4, 8))


def test_a_tile_has_the_name_of_its_variable(tmp_path):
    error = raised(tmp_path, "weights = nl.load(x)\nweights[:, 0:99]\n")
    assert "tensor `weights`" in str(error)
    error = raised(
        tmp_path, 'weights = nl.ndarray((4, 8), nl.float32, name="w")\nweights[:, 0:99]\n'
    )
    assert "tensor `w`" in str(error)


def test_the_operand_is_underlined(tmp_path):
    body = "t = nl.load(x)\nnisa.activation(dst=x, op=nl.exp, data=t)\n"
    finding = raised(tmp_path, body).finding
    complete([finding])
    plain = finding_text(finding).splitlines()
    at = plain[1].index("dst=x") + 4
    assert plain[2] == " " * at + "^"
    coloured = finding_text(finding, colour=True)
    assert "dst=\x1b[1;4mx\x1b[0m, op" in coloured
    assert coloured.startswith("\x1b[1;31merror[M021]")


def test_no_code_where_it_is_not_certain(tmp_path):
    """Rows that are used again after the last tile: a loop would change what the kernel does."""
    body = "t = nl.load(x)\nu = nl.exp(t)\nif x.shape[0] > 4:\n    v = nl.exp(u)\n"
    assert raised(tmp_path, body, f32(300, 8)).finding.rewrite is None


PRODUCT = """\
m = nl.load(x)
n = nl.load(x)
acc = nl.ndarray({dst}, dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=acc, stationary={stationary}, moving={moving})
"""
SUM = """\
total = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.sbuf)
for i in range(2):
    u = nl.load(x)
    {line}
out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
nl.store(out, total)
return out
"""
PART = """\
t = nl.ndarray((8, 96), dtype=x.dtype, buffer=nl.sbuf)
u = nl.ndarray((8, 96), dtype=x.dtype, buffer=nl.sbuf)
nisa.dma_copy(dst=t[:, 0:64], src=x)
{line}
out = nl.ndarray((8, 96), dtype=x.dtype, buffer=nl.shared_hbm)
nl.store(out, u)
return out
"""
TAIL = """\
out = nl.ndarray((8, 64), dtype=x.dtype, buffer=nl.shared_hbm)
width = 64
for c in range({count}):
    {line}
return out
"""
WIDE = """\
t = nl.ndarray((8, 80000), dtype=nl.float32, buffer=nl.sbuf)
u = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=t, value=1.0)
{line}
return x
"""
COPY = "nisa.dma_copy(dst=out[:, c * 24 : c * 24 + 24], src=x[:, c * 24 : c * 24 + 24])"

UNCERTAIN = [
    # S028: no reading fits, or the tile is an expression
    ("S028", PRODUCT.format(dst="(8, 8)", stationary="m[0:4]", moving="n")),
    ("S028", PRODUCT.format(dst="(64, 64)", stationary="m[0:4]", moving="n")),
    ("S028", PRODUCT.format(dst="(8, 4)", stationary="m", moving="n[0:4]")),
    # S030: operands that are expressions, a name that would be given to several instructions
    (
        "S030",
        "m = nl.load(x)\nw = nl.ndarray((8, 700), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.memset(dst=w, value=1.0)\n"
        "acc = nl.ndarray((64, 700), dtype=nl.float32, buffer=nl.psum)\n"
        "nisa.nc_matmul(dst=acc, stationary=m, moving=w[:, 0:700])\n",
    ),
    (
        "S030",
        "m = nl.load(x)\nw = nl.ndarray((8, 700), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.memset(dst=w, value=1.0)\n"
        "acc = nl.ndarray((64, 700), dtype=nl.float32, buffer=nl.psum)\n"
        'nisa.nc_matmul(dst=acc, stationary=m, moving=w, name="product")\n',
    ),
    # M001: a first value that is not neutral, a tile of each iteration, other shapes
    ("M001", SUM.format(line="nisa.tensor_tensor(total, total, u, op=nl.subtract)")),
    ("M001", SUM.format(line="nisa.tensor_tensor(total, total, u, op=nl.maximum)")),
    ("M001", SUM.format(line="nisa.tensor_tensor(total, total, total, op=nl.add)")),
    ("M001", SUM.format(line="nisa.tensor_copy(dst=total, src=total)")),
    (
        "M001",
        SUM.format(line="nisa.tensor_tensor(total, total, u, op=nl.add)\n    nl.store(x, total)"),
    ),
    ("M001", PART.format(line="nisa.activation(dst=u, op=nl.exp, data=t)")),
    ("M001", PART.format(line="nisa.tensor_tensor(u[:, 0:96], t, t, op=nl.add)")),
    ("M001", PART.format(line="nisa.dma_copy(dst=t[:, 72:96], src=x[:, 0:24])\nu = nl.exp(t)")),
    # M006: a tile of fixed size, an extent that is not the output's, another use of the index
    ("M006", TAIL.format(count="64 // 24", line="t = nl.zeros((8, 24), nl.float32)\n    " + COPY)),
    ("M006", TAIL.format(count="width // 24", line=COPY)),
    ("M006", TAIL.format(count="x.shape[1] // 24", line=COPY)),
    ("M006", TAIL.format(count="64 // 24", line=COPY + "\n    nisa.dma_copy(x[c], x[c])")),
    ("M006", TAIL.format(count="2", line=COPY)),
    ("M006", TAIL.replace("range({", "nl.dynamic_range({").format(count="64 // 24", line=COPY)),
    # R003: either loop could be meant
    (
        "R003",
        "t = nl.zeros((8, 64), nl.float32)\nfor i in nl.affine_range(2):\n"
        "    for j in nl.affine_range(2):\n"
        "        nisa.tensor_tensor(t, t, nl.load(x), op=nl.add)\nnl.store(x, t)\nreturn x\n",
    ),
    # M009: a reduction, single columns, a use behind the run
    ("M009", WIDE.format(line="nisa.tensor_reduce(dst=u, op=nl.add, data=t, axis=1)")),
    ("M009", WIDE.format(line="nisa.tensor_copy(dst=u, src=t[:, 0:1])")),
    ("M009", WIDE.format(line="if True:\n    nisa.tensor_copy(dst=u, src=t[:, 0:1])")),
    # S001: the tensor has other rows; S002: the tensor has rows, too
    (
        "S001",
        "t = nl.ndarray((300, 64), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.dma_copy(dst=t, src=x)\n",
    ),
    (
        "S002",
        "t = nl.ndarray((x.shape[1],), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.dma_copy(dst=t, src=x)\n",
    ),
    # L060: two outputs, two ends, a number
    (
        "L060",
        "a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "nl.store(a, nl.load(x))\nnl.store(b, nl.load(x))\n",
    ),
    (
        "L060",
        "a = nl.load(x)\nif x.shape[0] == 8:\n    return a\nreturn a\n",
    ),
    ("L060", "a = nl.load(x)\nnl.store(x, a)\nreturn x, 3\n"),
]


@each_case("rule, body", UNCERTAIN)
def test_look_alikes_have_no_code(tmp_path, rule, body):
    file = tmp_path / "look_alike.py"
    file.write_text(HEAD + "def kernel(x):\n" + textwrap.indent(body, "    "))
    found = [f for f in findings_of(file, "kernel", (f32(8, 64),)) if f.rule.id == rule]
    assert found
    assert [f.rewrite for f in found] == [None] * len(found)


def test_one_of_several_results_is_stored(tmp_path):
    body = "t = nl.load(x)\nnl.store(x, t)\nreturn x, t\n"
    file = tmp_path / "results.py"
    file.write_text(HEAD + "def kernel(x):\n" + textwrap.indent(body, "    "))
    assert fixed(file, "kernel", (f32(4, 8),)) == 1
    assert file.read_text().endswith("    return (x, out)\n")


@pytest.mark.parametrize("line", ["if x.shape[0]: t += 1.0", "t += 1.0; nl.store(x, t)"])
def test_a_statement_that_shares_its_line_has_no_code(tmp_path, line):
    finding = raised(tmp_path, f"t = nl.load(x)\n{line}\n").finding
    assert finding.rule.id == "L027"
    assert finding.rewrite is None


# Conditions, and several findings on a line


@pytest.mark.parametrize(
    "line",
    [
        "if t[0, 0] > 0:\n    pass",
        "while t[0, 0] > 0:\n    pass",
        "u = t if t[0, 0] < 0 else x",
        "assert t[0, 0] >= 0",
        "if x.shape[0] > 2 and t[0, 0] > 0:\n    pass",
    ],
)
def test_a_condition_on_contents_is_answered_by_what_to_use(tmp_path, line):
    finding = raised(tmp_path, f"t = nl.load(x)\n{line}\n").finding
    assert finding.rule.id == "L027"
    for said in ("nl.where", "tensor_copy_predicated", "register_load", "nl.dynamic_range"):
        assert said in finding.fix
    assert finding.rewrite is None


@pytest.mark.parametrize("compared", ["t[0, 0] > 0", "t[0, 0] == 0", "0 != t", "t"])
def test_the_source_answers_the_same(tmp_path, compared):
    (finding,) = source_findings(tmp_path, f"t = nl.load(x)\nif {compared}:\n    pass\n")
    assert "nl.where" in finding.fix


def test_a_parameter_may_be_a_number_or_a_tensor(tmp_path):
    assert not source_findings(tmp_path, "t = nl.load(x)\nif x == 1:\n    pass\n")


@pytest.mark.parametrize(
    ("line", "fixed_by"),
    [
        ("t += nisa.nc_matmul(t, t)", "L029"),
        ("t[...] = t + t", "L027"),
        ("t[...] = nisa.tensor_copy(src=t)", "L028"),
    ],
)
def test_a_line_gets_one_fix(tmp_path, line, fixed_by):
    found = source_findings(tmp_path, f"t = nl.load(x)\n{line}\n")
    assert len(found) == 2
    (first,) = [f for f in found if f.rule.id == fixed_by]
    (other,) = [f for f in found if f.rule.id != fixed_by]
    assert other.fix == f"as for {fixed_by} on this line"
    assert other.rewrite is None
    assert not first.fix.startswith("as for")
