"""``nkisim find`` on words of torch and NumPy: the code that it prints computes what they mean."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import special

import nkisim
from each_case import each_case
from nkisim.cli import commands
from nkisim.cli.finding import calls, meant
from nkisim.filecheck.modules import imported
from nkisim.intents import intent_of
from nkisim.versions import judged_by
from nkisim.ways import ways

WAYS = ways()

WORDS = (
    "topk sort argsort argmax argmin gather take_along_axis index_select embedding take scatter "
    "index_copy scatter_add index_add pad one_hot arange linspace eye tril triu diagonal trace "
    "nonzero masked_select softmax log_softmax logsumexp layer_norm rms_norm cat stack split chunk "
    "flip roll repeat_interleave tile reshape view astype diff max_pool1d avg_pool2d searchsorted "
    "bincount histogram outer linear addmm randint bernoulli cummax leaky_relu elu lerp "
    "count_nonzero any norm mse_loss"
)


@pytest.mark.parametrize("version", ["0.3.0", "0.7.0"])
def test_words_of_torch_and_numpy_have_an_answer(version):
    """Code, and the signature of each function that the code calls."""
    with judged_by(version):
        known = calls()
        for word in WORDS.split():
            remedy, found = meant(f"torch.{word}", known)
            names = {call.name for call in found}
            code = WAYS[word].code if word in WAYS else intent_of(word).remedy()
            assert remedy.startswith(code), word
            called = re.findall(r"(?:nisa|nl)\.\w+(?=\()", code)
            assert called or re.match(r"y = x\b", code), word
            assert set(called) <= names, word


def test_a_word_may_be_written_in_other_ways():
    known = calls()
    assert meant("one hot", known) == meant("one-hot", known) == meant("np.one_hot", known)
    assert meant("LayerNorm", known) == meant("torch.nn.functional.layernorm", known)
    assert meant("tensor_scaler", known)[0] == "did you mean tensor_scalar?"


def test_the_command_prints_code_then_signatures():
    result = CliRunner().invoke(commands, ["find", "torch.pad"])
    code, _, rest = result.output.partition("\n    ")
    assert code == WAYS["pad"].code
    assert rest.partition("\n\n")[2].startswith("nisa.memset(dst, value, ")
    result = CliRunner().invoke(commands, ["find", "torch.frobnicate"], standalone_mode=False)
    assert result.return_value == 1
    assert result.output == "no call of NKI has 'torch.frobnicate'\n"


# -- the code computes it --------------------------------------------------------------------------

P, N, K = 16, 24, 3
_random = np.random.default_rng(7)
X, Y = (_random.permutation(P * N).reshape(P, N).astype(np.float32) / 100 - 1 for _ in range(2))
TABLE = _random.normal(size=(40, N)).astype(np.float32)
ROWS = _random.permutation(40)[:P, None].astype(np.int32)
COLUMNS = _random.integers(0, N, (P, 6)).astype(np.uint32)
CLASSES = _random.integers(0, N, (P, 1)).astype(np.float32)
COUNTED = np.tile(_random.integers(0, P, N).astype(np.float32), (P, 1))
EPSILON = np.full((P, 1), 1e-3, np.float32)
BIAS = _random.normal(size=(N, N)).astype(np.float32)


def with_rows(change):
    table = TABLE.copy()
    table[ROWS[:, 0]] = change(table[ROWS[:, 0]])
    return table


def normal(x, centre):
    size = ((x - centre) ** 2).mean(1, keepdims=True)
    return (x - centre) / np.sqrt(size + 1e-3)


COLUMN, TILE, WIDE = "(P, 1)", "(P, N)", "(P, 2 * N)"
IN_SOFTMAX = {"low": COLUMN, "powers": TILE, "total": COLUMN, "dst": TILE}
SORTED = -np.sort(-X, 1)
FIRST = {"x": X}
# By word: the operands, the shapes of the other tiles, the results, and what they must be.
EXAMPLES = {
    "topk": (
        FIRST,
        {"values": "(P, 8)", "positions": "(P, 8), nl.uint32"},
        ["values", "positions"],
        [SORTED[:, :8], np.argsort(-X, 1)[:, :8]],
    ),
    "argmax": (
        FIRST,
        {"values": "(P, 8)", "positions": "(P, 8), nl.uint32"},
        ["positions[:, 0:1]"],
        [X.argmax(1)[:, None]],
    ),
    "sort": (FIRST, {"values": TILE}, ["values"], [SORTED]),
    "gather": (
        {"x": X, "index": COLUMNS},
        {"dst": "(P, 6)"},
        ["dst"],
        [np.take_along_axis(X, COLUMNS.astype(int), 1)],
    ),
    "take": ({"table": TABLE, "index": ROWS}, {"dst": TILE}, ["dst"], [TABLE[ROWS[:, 0]]]),
    "scatter": (
        {"table": TABLE, "index": ROWS, "x": X},
        {},
        ["table"],
        [with_rows(lambda old: X)],
    ),
    "scatter_add": (
        {"table": TABLE, "index": ROWS, "x": X},
        {},
        ["table"],
        [with_rows(lambda old: old + X)],
    ),
    "pad": (FIRST, {"dst": "(P, N + 5)"}, ["dst"], [np.pad(X, ((0, 0), (K, 5 - K)))]),
    "one_hot": (
        {"index": CLASSES},
        {"columns": TILE, "dst": TILE},
        ["dst"],
        [np.eye(N)[CLASSES[:, 0].astype(int)]],
    ),
    "arange": ({}, {"dst": TILE}, ["dst"], [np.tile(5 + 2 * np.arange(N), (P, 1))]),
    "eye": ({}, {"dst": TILE}, ["dst"], [np.eye(P, N)]),
    "tril": (FIRST, {"dst": TILE}, ["dst"], [np.tril(X)]),
    "triu": (FIRST, {"dst": TILE}, ["dst"], [np.triu(X)]),
    "diag": (
        FIRST,
        {"dst": TILE, "total": COLUMN},
        ["total"],
        [np.diag(X)[:, None]],
    ),
    "nonzero": (
        {"x": np.maximum(X, 0)},
        {"positions": "(P, N + 1), nl.int32"},
        ["positions[0:1, :]"],
        [
            np.r_[
                np.flatnonzero(X[0] > 0), np.full((X[0] <= 0).sum(), -1), np.count_nonzero(X[0] > 0)
            ][None]
        ],
    ),
    "softmax": (FIRST, IN_SOFTMAX, ["dst"], [special.softmax(X, 1)]),
    "logsumexp": (
        FIRST,
        IN_SOFTMAX,
        ["total"],
        [special.logsumexp(X, 1, keepdims=True)],
    ),
    "layer_norm": (
        {"x": X, "epsilon": EPSILON},
        {"stats": "(P, 6)", "moments": "(P, 2)", "scale": COLUMN, "dst": TILE},
        ["dst"],
        [normal(X, X.mean(1, keepdims=True))],
    ),
    "rms_norm": (
        {"x": X, "epsilon": EPSILON},
        {"squares": TILE, "total": COLUMN, "scale": COLUMN, "dst": TILE},
        ["dst"],
        [normal(X, 0)],
    ),
    "cat": ({"x": X, "y": Y}, {"dst": WIDE}, ["dst"], [np.concatenate([X, Y], 1)]),
    "split": (FIRST, {}, ["y"], [X[:, :K]]),
    "flip": (FIRST, {"dst": TILE}, ["dst"], [X[:, ::-1]]),
    "roll": (FIRST, {"dst": TILE}, ["dst"], [np.roll(X, K, 1)]),
    "repeat_interleave": (
        FIRST,
        {"dst": "(P, N, K)"},
        ["dst"],
        [np.repeat(X, K, 1).reshape(P, N, K)],
    ),
    "tile": (FIRST, {"dst": "(P, K, N)"}, ["dst"], [np.tile(X, (1, K)).reshape(P, K, N)]),
    "reshape": (FIRST, {}, ["y"], [X.reshape(P, N // K, K)]),
    "astype": (
        FIRST,
        {"dst": "(P, N), nl.float16"},
        ["dst"],
        [X.astype(np.float16)],
    ),
    "diff": (FIRST, {"dst": "(P, N - 1)"}, ["dst"], [np.diff(X, axis=1)]),
    "max_pool1d": (
        FIRST,
        {"dst": "(P, N // K)"},
        ["dst"],
        [X.reshape(P, N // K, K).max(2)],
    ),
    "searchsorted": (
        {"x": X, "y": np.sort(Y, 1)},
        {"hits": TILE, "dst": COLUMN},
        ["dst"],
        [[[np.searchsorted(row, x)] for row, x in zip(np.sort(Y, 1), X[:, 0], strict=True)]],
    ),
    "bincount": (
        {"x": COUNTED},
        {"bins": COLUMN, "hits": TILE, "dst": COLUMN},
        ["dst"],
        [np.bincount(COUNTED[0].astype(int), minlength=P)[:, None]],
    ),
    "outer": (
        {"x": np.tile(X, 6)[:, :128], "y": Y},
        {"dst": "(128, N), nl.float32, buffer=nl.psum"},
        ["dst"],
        [np.outer(np.tile(X, 6)[0, :128], Y[0])],
    ),
    "linear": (
        {"x": X, "y": Y, "bias": BIAS},
        {"product": "(N, N), nl.float32, buffer=nl.psum", "dst": "(N, N)"},
        ["dst"],
        [X.T @ Y + BIAS],
    ),
}
OF_RANDOM_NUMBERS = {"randint": (10, 4.5, 2.9), "bernoulli": (2, 0.25, 0.44)}
"""Bound, mean and standard deviation."""


def results(tmp_path, code, operands, tiles, shown, allowed=frozenset()):
    """The results of code in a kernel, which has no finding on any generation."""
    names = ", ".join(f"{name}_hbm" for name in operands)
    lines = [f"P, N, K = {P}, {N}, {K}", "p, n, k, start, step = P, N, K, 5, 2"]
    for name, array in operands.items():
        if name == "table":  # changed in place
            memory = f"nl.{array.dtype}, buffer=nl.shared_hbm"
            lines.append(f"{name} = nl.ndarray({array.shape}, {memory})")
            lines.append(f"nisa.dma_copy(dst={name}, src={name}_hbm)")
        else:
            lines.append(f"{name} = nl.load({name}_hbm)")
    for name, shape in tiles.items():
        shape += "" if "nl." in shape else ", nl.float32"
        lines.append(f"{name} = nl.ndarray({shape})")
    lines += code.splitlines()
    returned = [name for name in shown if name == "table"]
    for number, name in enumerate(shown if not returned else []):
        out = f"out{number}"
        lines.append(
            f"{out}, given = nl.ndarray({name}.shape, {name}.dtype, nl.shared_hbm), {name}"
        )
        lines.append("on_chip = nl.ndarray(given.shape, given.dtype)")
        lines += [
            "nisa.tensor_copy(dst=on_chip, src=given)",
            f"nisa.dma_copy(dst={out}, src=on_chip)",
        ]
        returned.append(out)
    body = "\n    ".join([*lines, f"return [{', '.join(returned)}]"])
    head = "import nkisim\nimport nkisim.isa as nisa\nimport nkisim.language as nl\n\n\n"
    file = tmp_path / "way.py"
    file.write_text(f"{head}@nkisim.jit\ndef kernel({names}):\n    {body}\n")
    with imported(file, 60.0) as module:
        for generation in ("gen3", "gen4"):
            report = nkisim.check(module.kernel, target=generation)(*operands.values())
            assert report.codes <= allowed, str(report)
    return report.outputs


@each_case("word", EXAMPLES)
def test_the_code_computes_what_the_word_means(tmp_path, word):
    operands, tiles, shown, wanted = EXAMPLES[word]
    made = results(tmp_path, WAYS[word].code, operands, tiles, shown)
    for got, want in zip(made, wanted, strict=True):
        # Roundings of float32: sums of up to 24 terms of magnitude at most 8.
        np.testing.assert_allclose(got, want, rtol=0, atol=24 * 2**-24 * 8)


@each_case("word", OF_RANDOM_NUMBERS)
def test_the_code_draws_from_the_distribution(tmp_path, word):
    bound, mean, deviation = OF_RANDOM_NUMBERS[word]
    (got,) = results(tmp_path, WAYS[word].code, {}, {}, ["dst"], {"R012"})  # no seed
    assert set(np.unique(got)) <= set(range(bound))
    assert abs(got.mean() - mean) <= 4 * deviation / got.size**0.5  # 1 of 15,000 seeds


def test_every_piece_of_code_is_tried():
    tried = {WAYS[word].code for word in (*EXAMPLES, *OF_RANDOM_NUMBERS)}
    assert tried == {way.code for way in WAYS.values() if way.code}
