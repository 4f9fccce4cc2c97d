"""Advice keeps its promises: a kernel that follows it gains at least half of what it promised."""

import sys
from pathlib import Path

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

TOOLS = str(Path(__file__).parents[3] / "tools")
sys.path.insert(0, TOOLS)
from calibration.advised import ADVISED, Gain, gain_of  # noqa: E402

sys.path.remove(TOOLS)

RULES = [f"P00{i}" for i in range(1, 9)]


def is_kept(gain):
    """Return whether following the advice obtains at least half of its promise."""
    return gain.obtained >= gain.promised / 2 > 0


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
@pytest.mark.parametrize("rule", RULES)
def test_following_advice_obtains_at_least_half_of_its_promise(rule, target):
    rng = np.random.default_rng([int(rule[1:]), int(target[3:])])
    gains = [
        gain_of(entry, int(rng.integers(1, 4)), target)
        for entry in ADVISED
        if entry.rule == rule and target in entry.targets
    ]
    found = [gain for gain in gains if gain is not None]
    assert found or not gains
    assert [gain for gain in found if not is_kept(gain)] == []


def test_a_broken_promise_is_noticed():
    assert is_kept(Gain(100.0, 10.0, 5.0))
    assert not is_kept(Gain(100.0, 10.0, 4.9))
    assert not is_kept(Gain(164.6, 3.9, -58.4))
    assert not is_kept(Gain(164.6, 91.9, 29.6))


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
    assert plain.cause.startswith("120 transfers")
    assert "engine=nisa.engine.sync" in plain.code
    assert "engine=nisa.engine.scalar" in plain.code
    for piece in nkisim.profile(loads)(x, True).advice:
        assert piece.rule != "P002" or piece.cause.startswith("60 transfers")


def test_stores_that_replace_what_was_stored_need_no_second_buffer():
    def stores(x):
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=0.0)
        for _ in range(20):
            nisa.dma_copy(dst=out, src=tile)
        return out

    assert "P005" not in rules_of(stores, zeros(1, 1))
