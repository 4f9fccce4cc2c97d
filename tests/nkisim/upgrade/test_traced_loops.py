"""Thirty kernels with loops of the device, written for 0.4 to 0.6, and what 0.7 makes of them."""

import itertools

import numpy as np
import pytest

from each_case import each_case
from nkisim.upgrade import upgrade_text
from upgraded import upgraded_result

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a, b):
    out = nl.ndarray((1, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((1, 64), dtype=nl.float32, buffer=nl.sbuf)
    row = nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.sbuf)
    one = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    left = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(one, 1)
    nisa.memset(left, 5)
    nisa.dma_copy(dst=row, src=b[0:1, 0:64])
    r = nisa.register_alloc()
    nisa.register_load(r, left)
"""
TAIL = """
    nisa.dma_copy(dst=out, src=total)
    return out
"""
OWN = """
        t = nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a.ap([[64, 1], [1, 64]], scalar_offset=i, indirect_dim=0))
        nisa.tensor_tensor(dst=total, data1=total, data2=t, op=nl.add)"""
ADD = """
        nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)"""
INNER = """
        for k in range(2):
            nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.5)"""
COUNT = """
        nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
        nisa.register_load(r, left)"""
BOUNDS = ("4", "r", "1, 6", "1, r, 2", "0, 8, 3")

COUNTED = [
    f"    for i in nl.dynamic_range({bounds}):{body}"
    for bounds, body in itertools.product(BOUNDS, (OWN, ADD, INNER, ADD + INNER))
]
WHILE = [f"    while r:{body}{COUNT}" for body in (ADD, INNER, ADD + INNER, INNER + ADD, ADD + ADD)]
REWRITTEN = COUNTED + WHILE
REVIEWED = {
    f"    for i in nl.dynamic_range(4):{ADD}\n        total = row": "total",
    f"    for i in nl.dynamic_range(4):{ADD}\n        break": "break",
    f"    for i in nl.dynamic_range(4):{ADD}\n        last = i\n    print(last)": "last",
    f"    while r:{ADD}{COUNT}\n    nisa.register_store(left, r)": "used after",
    f"    for i in nl.dynamic_range(4):{ADD}\n    else:\n        pass": "else",
}
VERSIONS = ("0.4", "0.5", "0.6")


def operands():
    rng = np.random.default_rng(7)
    return [rng.standard_normal((128, 64)).astype(np.float32) for _ in range(2)]


def test_there_are_thirty():
    assert len(REWRITTEN) + len(REVIEWED) == 30


@pytest.mark.parametrize("since", VERSIONS)
def test_rewritten_loops_give_the_same_bits(since, tmp_path):
    """Each version has every third of the kernels."""
    arrays = operands()
    for number, loop in enumerate(REWRITTEN[VERSIONS.index(since) :: 3]):
        text = HEAD + loop + TAIL
        outcome = upgrade_text(text, since, "0.7.0")
        assert (outcome.problem, outcome.findings) == ("", []), outcome.after
        assert outcome.options == []  # conditions of loops are registers in 0.7 too
        assert upgrade_text(text, "auto", "0.7.0").findings == []
        folders = [tmp_path / f"{number}_{side}" for side in ("before", "after")]
        for folder in folders:
            folder.mkdir()
        before = upgraded_result(text, folders[0], arrays, since)
        after = upgraded_result(outcome.after, folders[1], arrays, "0.7")
        assert before.tobytes() == after.tobytes(), outcome.after
        assert upgrade_text(outcome.after, "auto", "0.7.0").after == outcome.after


@each_case(("loop", "why"), list(REVIEWED.items()))
def test_other_loops_are_left_with_the_reason(loop, why):
    for since in ("auto", *VERSIONS):
        outcome = upgrade_text(HEAD + loop + TAIL, since, "0.7.0")
        assert [why in finding.message for finding in outcome.findings] == [True], outcome.findings


DEPRECATED = "    first = nisa.memset(total, 0)\n    nisa.memset(row, 0).depends_on(first)"


def test_deprecated_forms_stay_unless_the_release_is_known():
    text = HEAD + DEPRECATED + TAIL
    assert upgrade_text(text, "auto", "0.7.0").after == text
    assert (
        "depends_on(first, kind=nisa.dependency.runtime)"
        in upgrade_text(text, "0.6", "0.7.0").after
    )


LOOK_ALIKES = [
    "    nisa.activation(total, nl.exp, row, name='e')",
    "    for i in range(4):\n        nisa.memset(total, 0)",
    "    same = a.shape == b.shape",
    "    nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 64))",
]


@each_case("line", LOOK_ALIKES)
def test_code_that_both_releases_take_is_not_changed(line):
    text = HEAD + line + TAIL
    outcome = upgrade_text(text, "0.6", "0.7.0")
    assert (outcome.after, outcome.findings) == (text, [])
