"""Conditions of advice: what is advised, and what must not be."""

import functools
import inspect

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.profiling.advice.activations import activation_advice
from nkisim.profiling.advice.candidate import Found
from nkisim.trials import running

from ...each_case import each_case
from .slow_kernels import weights_by_rows, weights_that_grow
from .test_resources import captured


def zeros(*shape):
    return np.zeros(shape, np.float32)


def rules_of(kernel, *arguments, target="trn2"):
    return {piece.rule for piece in nkisim.profile(kernel, target)(*arguments).advice}


def test_products_with_different_stationary_operands_cannot_be_merged():
    def products(a, b, same):
        out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        left = nl.ndarray((128, 8192), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, 64), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a)
        nisa.dma_copy(dst=right, src=b)
        total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
        for i in range(64):
            first = 0 if same else i * 128
            stationary = left[:, first : first + 128]
            nisa.nc_matmul(dst=total, stationary=stationary, moving=right, accumulate=i > 0)
        result = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    a, b = zeros(128, 8192), zeros(128, 64)
    assert "P004" in rules_of(products, a, b, True)
    assert "P004" not in rules_of(products, a, b, False)


def test_transfers_that_hardware_cannot_describe_are_not_counted():
    def loads(x, converts):
        dtype = nl.bfloat16 if converts else nl.float32
        out = nl.ndarray((128, 16), dtype=dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(x.shape[0] // 128):
            tile = nl.ndarray((128, 16), dtype=dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
            nisa.dma_copy(dst=out, src=tile)
        return out

    x = zeros(128 * 60, 16)
    (plain,) = [p for p in nkisim.profile(loads)(x, False).advice if p.rule == "P002"]
    assert plain.values["transfers"] == 120
    assert sorted(plain.values["queues"].values()) == ["scalar", "sync"]
    for piece in nkisim.profile(loads)(x, True).advice:
        assert piece.rule != "P002" or piece.values["transfers"] == 60


def test_a_transposition_is_no_transfer_that_hardware_describes():
    def transposed(x):
        out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(x.shape[0] // 128):
            tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_transpose(dst=tile, src=x[i * 128 : (i + 1) * 128])
            nisa.dma_copy(dst=out, src=tile)
        return out

    for piece in nkisim.profile(transposed)(zeros(128 * 60, 128)).advice:
        assert piece.rule != "P002" or piece.values["transfers"] == 60


def weighted(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


WEIGHTED = zeros(1024, 1024), zeros(128, 1024)


def test_a_tile_that_a_loop_fills_is_filled_once():
    shapes = zeros(512, 128), zeros(1, 128)
    (piece,) = (p for p in nkisim.profile(weights_by_rows)(*shapes).advice if p.rule == "P009")
    assert "+    for p in range(128):\n+        nisa.dma_copy(dst=weights" in piece.code
    changed = nkisim.profile(weights_that_grow)(*shapes).advice
    assert not any(p.rule == "P009" and p.code for p in changed)


def test_without_trials_advice_is_sentences(monkeypatch):
    tried = nkisim.profile(weighted)(*WEIGHTED).advice
    monkeypatch.setattr(running, "MOST_TRIALS", 0)
    found = nkisim.profile(weighted)(*WEIGHTED)
    assert "P009" in {piece.rule for piece in tried if piece.code}
    assert "P009" in {piece.rule for piece in found.advice}
    assert {(piece.code, piece.gain_us) for piece in found.advice} == {("", None)}
    assert found.together is None


def test_without_source_advice_is_sentences():
    names = {"nl": nl, "nisa": nisa}
    exec(inspect.getsource(weighted), names)
    found = nkisim.profile(names["weighted"])(*WEIGHTED)
    assert "P009" in {piece.rule for piece in found.advice}
    assert {(piece.code, piece.gain_us) for piece in found.advice} == {("", None)}


def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


def test_the_absence_of_advice_has_a_reason():
    short = nkisim.profile(doubled)(zeros(128, 64))
    long = nkisim.profile(doubled, "trn1")(zeros(4096, 4096))
    assert short.advice == long.advice == []
    assert short.no_advice == (
        f"the fixed cost of a call is {short.fixed_us / short.latency_us:.0%} of the time"
    )
    assert long.no_advice == f"the kernel is at {long.bound_share:.0%} of its bound by dma"
    assert "none, because the kernel is at" in " ".join(str(long).split())
    assert nkisim.profile(weighted)(*WEIGHTED).no_advice == ""
    assert nkisim.profile(doubled, advice=False)(zeros(128, 64)).no_advice == ""


def test_progress_counts_trials_up_to_the_limit():
    seen = []
    nkisim.profile(weighted, progress=lambda number, most: seen.append((number, most)))(*WEIGHTED)
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert {most for _, most in seen} == {running.MOST_TRIALS}
    assert len(seen) <= running.MOST_TRIALS
    nkisim.profile(weighted, advice=False, progress=seen.append)(*WEIGHTED)
    numbers = []

    def one(number, most):
        numbers.append(number)
        return number < 2

    stopped = nkisim.profile(weighted, progress=one)(*WEIGHTED)
    assert numbers == [1, 2]  # the second one is not made
    assert sum(bool(piece.code) for piece in stopped.advice) <= 1


def powers_of(x, reads_difference=False, bias=False, overwrites=False):
    """Difference to the maximum and exponential of each row, with what stands in the way."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        powers = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        most = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.tensor_reduce(dst=most, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=most)
        if overwrites:
            nisa.memset(dst=most, value=0.0)
        nisa.activation(dst=powers, op=nl.exp, data=tile, bias=most if bias else None)
        nisa.reciprocal(dst=powers, data=powers)  # Vector binds
        if reads_difference:
            nisa.tensor_tensor(dst=powers, data1=powers, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out[rows], src=powers)
    return out


def test_only_steps_that_nothing_else_needs_are_fused():
    x = np.zeros((512, 1024), np.float16)
    assert "P010" in rules_of(powers_of, x)
    for condition in ("reads_difference", "bias", "overwrites"):
        assert "P010" not in rules_of(functools.partial(powers_of, **{condition: True}), x)


def steps_of(x, first, a, second, b):
    """Applies two steps and a function to one tile, and sums the results, eight times."""
    out = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    totals = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.load(x)
    column = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=column, value=0.5)
    for i in nl.sequential_range(8):
        moved = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        powers = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=moved, data=tile, op0=first, operand0=column if a is None else a)
        nisa.tensor_scalar(dst=moved, data=moved, op0=second, operand0=column if b is None else b)
        nisa.activation(dst=powers, op=nl.tanh, data=moved)
        nisa.tensor_reduce(dst=totals[:, i : i + 1], op=nl.add, data=powers, axis=1)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=powers, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    nisa.dma_copy(dst=out[:, 0:8], src=totals)
    return out


CHAINS = [
    (nl.multiply, 0.5, nl.add, 0.25, 2, "scale and bias and the sum"),
    (nl.add, 0.25, nl.multiply, 0.5, 2, "scale and bias and the sum"),
    (nl.multiply, None, nl.add, None, 2, "scale and bias and the sum"),
    (nl.subtract, 0.25, nl.multiply, None, 1, "scale and the sum"),
    (nl.multiply, 0.5, nl.multiply, 0.5, 1, "scale and the sum"),
    (nl.add, 0.25, nl.subtract, 0.5, 1, "bias and the sum"),
    (nl.multiply, 0.5, nl.maximum, 0.5, 0, "the sum"),
]


@each_case("first, a, second, b, count, parts", CHAINS)
def test_an_activation_takes_over_what_it_can_compute(first, a, second, b, count, parts):
    arguments = zeros(128, 512), first, a, second, b
    profile = nkisim.profile(steps_of, "trn2", advice=False)(*arguments)
    found = Found(captured(steps_of, *arguments), profile, None)
    (piece,) = activation_advice(found)
    steps = [*["tensor_scalar"] * count, "activation", "tensor_reduce"]
    assert (piece.values["steps"], piece.values["times"]) == (steps, 8)
    assert piece.cause.startswith(f"{', '.join(steps[:-1])} and tensor_reduce follow each other")
    assert piece.action == f"let one activation do them, with {parts}"
    assert piece.values["lines"] == [line for _, line in piece.lines]


def test_an_engine_that_makes_descriptors_gets_no_further_work():
    def products(x, y, mode):
        out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(x.shape[0] // 128):
            rows = slice(i * 128, (i + 1) * 128)
            left = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
            right = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
            product = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
            total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=left, src=x[rows], dge_mode=mode)
            nisa.dma_copy(dst=right, src=y[rows], dge_mode=mode)
            nisa.tensor_tensor(dst=product, data1=left, data2=right, op=nl.multiply)
            nisa.tensor_reduce(dst=total, op=nl.add, data=product, axis=1)
            nisa.dma_copy(dst=out[rows], src=total, dge_mode=mode)
        return out

    x = np.zeros((1024, 2048), np.float16)
    assert "P011" in rules_of(products, x, x, nisa.dge_mode.hwdge)
    assert "P011" not in rules_of(products, x, x, nisa.dge_mode.swdge)


def test_one_engine_does_what_no_other_one_may():
    """Scalar of gen3 has no maximum, that of gen4 has."""

    def limited(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        results = [nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf) for _ in range(2)]
        for i in nl.affine_range(20):
            nisa.tensor_scalar(dst=results[i % 2], data=tile, op0=nl.maximum, operand0=1.0 + i)
        nisa.dma_copy(dst=out, src=results[1])
        return out

    x = zeros(128, 2048)
    assert "P011" not in rules_of(limited, x, target="gen3")
    assert "P011" in rules_of(limited, x, target="gen4")
