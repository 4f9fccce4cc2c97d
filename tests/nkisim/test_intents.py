"""Every word of the table of intents, called as if NKI had it, gets code that is accepted."""

import re

import numpy as np
import pytest
from scipy import special

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.filecheck.modules import imported
from nkisim.intents import INTENTS, NAMES, Intent, counterpart, intent_of
from nkisim.ways import undecided, ways
from pairwise import in_turn

WORDS = {
    name: Intent(kind, op)
    for kind, meanings in INTENTS.items()
    for op, names in meanings.items()
    for name in names.split()
}

KERNEL = """\
import nkisim
import nkisim.isa as nisa
import nkisim.language as nl


@nkisim.jit
def kernel(x, y):
    t, u = nl.load(x), nl.load(y)
    {}
    out = nl.ndarray(z.shape, dtype=z.dtype, buffer=nl.shared_hbm)
    result = nl.ndarray(z.shape, dtype=z.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=z)
    nisa.dma_copy(dst=out, src=result)
    return out
"""

OPERANDS = {
    "nl.where(a, b, c)": "nl.greater(t, u), t, u",
    "nl.where(b, c, a)": "t, nl.greater(t, u), 0.5",
    "nl.minimum(nl.maximum(a, b), c)": "t, 0.75, 1.25",
    "nl.add(nl.multiply(b, a), c)": "2.0, t, u",
    "nl.add(a, nl.multiply(c, nl.subtract(b, a)))": "t, u, 0.25",
    "nisa.memset(dst=dst, value=a)": "2.5",
}
RESULTS = {
    "matmul": "(64, 64), dtype=nl.float32, buffer=nl.psum",
    "transpose": "(64, 32), dtype=t.dtype, buffer=nl.psum",
    "nisa.tensor_partition_reduce(dst=dst, op=nl.add, data=a)": "(1, 64), dtype=t.dtype",
    "nisa.max8(dst=dst, src=a)": "(32, 8), dtype=t.dtype",
}
ARGUMENTS = {
    "ndarray": ("z = nl.{}((32, 64), nl.float32)", "nisa.tensor_copy(dst=z, src=t)"),
    "zeros": ("z = nl.{}((32, 64), nl.float32)",),
    "program_id": ("i = nl.{}(0)", "z = nl.copy(t)"),
    "num_programs": ("i = nl.{}(0)", "z = nl.copy(t)"),
    "affine_range": ("for i in nl.{}(2):", "    z = nl.copy(t)"),
    "sequential_range": ("for i in nl.{}(2):", "    z = nl.copy(t)"),
    "static_range": ("for i in nl.{}(2):", "    z = nl.copy(t)"),
    "ds": ("z = nl.copy(t[:, nl.{}(0, 8)])",),
    "device_print": ('nl.{}("t", t)', "z = nl.copy(t)"),
    "broadcast_to": ("z = nl.{}(t[:, 0:1], (32, 64))",),
    "expand_dims": ("z = nl.{}(t, 1)",),
    "load_transpose2d": ("z = nl.{}(x)",),
    "rand": ("z = nl.{}((32, 64), nl.float32)",),
    "random_seed": ("nl.{}(nl.full((1, 1), 3, nl.int32))", "z = nl.copy(t)"),
}
UNARY = {
    "sigmoid": special.expit,
    "silu": lambda x: x * special.expit(x),
    "erf": special.erf,
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_apprx_tanh": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "gelu_apprx_sigmoid": lambda x: x * special.expit(1.702 * x),
    "rsqrt": lambda x: x**-0.5,
    "relu": lambda x: np.maximum(x, 0),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
}
HARD_SIGMOID = "nl.minimum(nl.maximum(nl.add(nl.multiply(a, 1 / 6), 0.5), 0.0), 1.0)"
FORMULAS = {
    "nl.invert(a)": lambda x, y: ~x,
    "nl.equal(a, 0.0)": lambda x, y: np.logical_not(x),
    "nl.subtract(nl.exp(a), 1.0)": lambda x, y: np.expm1(x),
    "nl.log(nl.add(a, 1.0))": lambda x, y: np.log1p(x),
    "nl.exp(nl.multiply(a, 0.6931471805599453))": lambda x, y: np.exp2(x),
    "nl.exp(nl.multiply(a, 2.302585092994046))": lambda x, y: 10**x,
    "nl.multiply(nl.log(a), 1.4426950408889634)": lambda x, y: np.log2(x),
    "nl.multiply(nl.log(a), 0.4342944819032518)": lambda x, y: np.log10(x),
    "nl.minimum(nl.maximum(a, b), c)": lambda x, y: np.clip(x, 0.75, 1.25),
    "nl.minimum(nl.relu(a), 6.0)": lambda x, y: np.clip(x, 0, 6),
    "nl.minimum(nl.maximum(a, -1.0), 1.0)": lambda x, y: np.clip(x, -1, 1),
    "nl.add(nl.multiply(a, b), c)": lambda x, y: x * y + y,
    "nl.add(nl.multiply(b, a), c)": lambda x, y: 2 * x + y,
    "nl.add(a, nl.multiply(b, c))": lambda x, y: x + y * y,
    "nl.square(nl.subtract(a, b))": lambda x, y: (x - y) ** 2,
    "nl.abs(nl.subtract(a, b))": lambda x, y: np.abs(x - y),
    "nl.subtract(b, a)": lambda x, y: y - x,
    "nl.subtract(1.0, a)": lambda x, y: 1 - x,
    "nl.multiply(nl.square(a), a)": lambda x, y: x**3,
    "nl.sqrt(nl.add(nl.square(a), nl.square(b)))": np.hypot,
    "nl.log(nl.sigmoid(a))": lambda x, y: special.log_expit(x),
    "nl.multiply(nl.subtract(nl.exp(a), nl.exp(nl.negative(a))), 0.5)": lambda x, y: np.sinh(x),
    "nl.multiply(nl.add(nl.exp(a), nl.exp(nl.negative(a))), 0.5)": lambda x, y: np.cosh(x),
    "nl.subtract(a, nl.trunc(a))": lambda x, y: x - np.trunc(x),
    "nl.subtract(a, nl.floor(a))": lambda x, y: x - np.floor(x),
    "nl.not_equal(a, a)": lambda x, y: np.isnan(x),
    "nl.multiply(a, 0.017453292519943295)": lambda x, y: np.deg2rad(x),
    "nl.multiply(a, 57.29577951308232)": lambda x, y: np.rad2deg(x),
    "nl.where(a, b, c)": lambda x, y: np.where(x > y, x, y),
    "nl.where(b, c, a)": lambda x, y: np.where(x > y, 0.5, x),
    "nl.sqrt(nl.var(a, axis=1))": lambda x, y: x.std(1, keepdims=True),
    "nl.max(nl.abs(a), axis=1)": lambda x, y: abs(x).max(1, keepdims=True),
    "nl.sum(nl.square(a), axis=1)": lambda x, y: (x * x).sum(1, keepdims=True),
    "nl.sqrt(nl.sum(nl.square(a), axis=1))": lambda x, y: np.hypot.reduce(x, 1, keepdims=True),
    "nl.sum(nl.abs(a), axis=1)": lambda x, y: abs(x).sum(1, keepdims=True),
    "nl.sum(nl.multiply(a, b), axis=1)": lambda x, y: (x * y).sum(1, keepdims=True),
    "nl.sum(nl.not_equal(a, 0.0), axis=1)": lambda x, y: np.count_nonzero(x, 1, keepdims=True),
    "nl.max(nl.not_equal(a, 0.0), axis=1)": lambda x, y: x.any(1, keepdims=True),
    "nl.mean(nl.square(nl.subtract(a, b)), axis=1)": lambda x, y: ((x - y) ** 2).mean(
        1, keepdims=True
    ),
    "nl.maximum(a, nl.multiply(a, 0.01))": lambda x, y: np.where(x > 0, x, 0.01 * x),
    "nl.where(nl.greater(a, 0.0), a, nl.subtract(nl.exp(a), 1.0))": lambda x, y: np.where(
        x > 0, x, np.expm1(x)
    ),
    HARD_SIGMOID: lambda x, y: np.clip(x / 6 + 0.5, 0, 1),
    f"nl.multiply(a, {HARD_SIGMOID})": lambda x, y: x * np.clip(x / 6 + 0.5, 0, 1),
    "nl.multiply(a, nl.reciprocal(nl.add(nl.abs(a), 1.0)))": lambda x, y: x / (1 + abs(x)),
    "nl.add(a, nl.multiply(c, nl.subtract(b, a)))": lambda x, y: x + 0.25 * (y - x),
    "nl.subtract(1.0, nl.erf(a))": lambda x, y: special.erfc(x),
    "nl.less_equal(nl.abs(a), 3.4028234663852886e+38)": lambda x, y: np.isfinite(x),
    "nisa.memset(dst=dst, value=a)": lambda x, y: np.full_like(x, 2.5),
    "nisa.memset(dst=dst, value=0.0)": lambda x, y: np.zeros_like(x),
    "nisa.memset(dst=dst, value=1.0)": lambda x, y: np.ones_like(x),
    "nisa.tensor_partition_reduce(dst=dst, op=nl.add, data=a)": lambda x, y: x.sum(0)[None],
    "nisa.max8(dst=dst, src=a)": lambda x, y: -np.sort(-x)[:, :8],
}


def meaning(intent, x, y):
    """What an operation computes, on NumPy arrays."""
    if intent.kind == "unary":
        return UNARY.get(intent.op, getattr(np, intent.op, None))(x)
    if intent.kind == "reduce":
        return getattr(np, intent.op).reduce(x, axis=1, keepdims=True)
    if intent.kind == "binary":
        return getattr(np, intent.op)(x, y)
    if intent.op in FORMULAS:
        return FORMULAS[intent.op](x, y)
    if intent.function:  # as nl.cos(a), nl.mean(a, axis=1)
        along = {"axis": 1, "keepdims": True} if "axis" in intent.op else {}
        return getattr(np, intent.function)(x, **along)
    scans = {"0.0": np.cumsum, "1.0": np.cumprod, "-3.4e38": np.maximum.accumulate}
    return scans[re.search(r"initial=(.*?),", intent.op)[1]](x, axis=1)


def cases():
    """The words that one or both modules do not have, each in the form of a call of it."""
    for word, intent in WORDS.items():
        if intent.kind == "function":
            yield word, "\n    ".join(ARGUMENTS[intent.op]).format(word)
            continue
        operands = OPERANDS.get(intent.op, ", ".join("tuu"[: intent.operands]))
        if intent.kind == "matmul":
            operands = "t, u"
        made = RESULTS.get(intent.op, RESULTS.get(intent.kind, "t.shape, dtype=t.dtype"))
        made = "(32, 1), dtype=t.dtype" if "axis=1" in intent.call else made
        operands = f", {operands}" if operands else ""
        product = "w = nl.load_transpose2d(y)\n    " if intent.kind == "matmul" else ""
        if not hasattr(nisa, word):
            yield word, f"z = nl.ndarray({made})\n    nisa.{word}(z{operands})"
        along = ", axis=1" if "axis=1" in intent.call else ""
        if intent.expression and not hasattr(nl, word):
            yield word, f"z = nl.{word}({operands.removeprefix(', ')}{along})"
        if intent.kind in ("matmul", "transpose") and not hasattr(nl, word):
            yield word, f"{product}z = nl.{word}(t{', w' if product else ''})"


def arguments(intent):
    if intent.op.startswith(("bitwise", "left", "right", "nl.invert")):
        return np.tile(np.arange(4, dtype=np.int32), (32, 16)), np.ones((32, 64), np.int32)
    random = np.random.default_rng(0)
    return tuple(random.uniform(0.5, 1.5, (32, 64)).astype(np.float32) for _ in range(2))


def checked(tmp_path, name, text, inputs):
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    with imported(file, 60.0) as module:
        return nkisim.check(module.kernel, source=False)(*inputs)


def pasted(tmp_path, text, inputs):
    """The report of a kernel with the code of its A025 pasted, and that code."""
    report = checked(tmp_path, "invented", text, inputs)
    (finding,) = [f for f in report.findings if f.rule.id == "A025"]
    assert finding.rewrite is not None, str(finding)
    text = finding.rewrite.applied(text)
    return checked(tmp_path, "meant", text, inputs), finding.rewrite.code


def first_words():
    """The first two cases of each meaning."""
    seen = []
    for word, body in cases():
        seen.append(WORDS[word])
        if seen.count(WORDS[word]) <= 2:
            yield word, body


@each_case("word, body", first_words(), group=lambda word, body: WORDS[word].kind)
def test_the_first_words_get_code_that_is_accepted(tmp_path, word, body):
    assert_accepted(tmp_path, word, body)


@pytest.mark.slow
@each_case("word, body", cases(), group=lambda word, body: WORDS[word].kind)
def test_every_word_gets_code_that_is_accepted(tmp_path, word, body):
    assert_accepted(tmp_path, word, body)


def assert_accepted(tmp_path, word, body):
    intent = WORDS[word]
    x, y = arguments(intent)
    report, code = pasted(tmp_path, KERNEL.format(body), (x, y))
    assert report.ok, f"{code}\n{report}"
    if intent.kind not in ("function", "move", "matmul", "transpose"):
        np.testing.assert_allclose(report.outputs, meaning(intent, x, y), rtol=1e-4, atol=1e-5)
    elif intent.kind != "function":
        instruction = body.startswith("z = nl.ndarray")
        product = x.T @ y if instruction else x @ y.T
        wanted = {"move": x, "transpose": x.T, "matmul": product}[intent.kind]
        np.testing.assert_allclose(report.outputs, wanted, rtol=1e-5)


@each_case("name", [*NAMES])
def test_a_name_of_a_dtype_or_a_memory_gets_the_one_that_nki_has(tmp_path, name):
    known = NAMES[name]
    of_memory = known in ("sbuf", "psum", "shared_hbm")
    given = f"nl.float32, buffer=nl.{name}" if of_memory else f"nl.{name}"
    body = f"q = nl.ndarray((32, 64), {given})\n    z = nl.copy(t)"
    report, code = pasted(tmp_path, KERNEL.format(body), arguments(Intent("move")))
    assert report.ok, f"{code}\n{report}"


@each_case("word", [*WORDS])
def test_a_word_is_no_name_of_nki(word):
    """At most one of the two modules has it, and there it means the same."""
    assert not (hasattr(nl, word) and hasattr(nisa, word))
    assert intent_of(word) == WORDS[word]


OF_OTHER_VERSIONS = {"topk", "arange"}  # which have findings of their own


@each_case("name, module", in_turn([*ways()], [nl, nisa]))
def test_a_name_without_certain_code_says_what_to_do(tmp_path, name, module):
    """In one of the modules, where it does not have it, and of a library."""
    if name not in OF_OTHER_VERSIONS and not hasattr(module, name):
        text = KERNEL.format(f"z = {'nl' if module is nl else 'nisa'}.{name}(t)")
        report = checked(tmp_path, "undecided", text, arguments(Intent("move")))
        (finding,) = [f for f in report.findings if f.rule.id == "A025"]
        assert finding.fix == undecided(name) == counterpart(name)
        assert finding.rewrite is None
    assert "decide" in undecided(name) or "remove it" in undecided(name)
    assert name not in WORDS


def test_there_are_many():
    invented = [word for word in WORDS if not hasattr(nl, word) and not hasattr(nisa, word)]
    assert len(invented) >= 150
    listed = [
        n for meanings in INTENTS.values() for names in meanings.values() for n in names.split()
    ]
    assert len(listed) == len(set(listed))
