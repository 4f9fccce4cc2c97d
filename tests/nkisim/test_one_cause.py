"""One cause, one finding: what follows from a mistake is folded into it, other mistakes are not."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from kernels import f32, told
from tiles import stored

# Twins with more than one finding, and why: the rest of a twin's findings is its own mistake.
SEVERAL = {
    "A021": "the copy at an address that is known at run time may fail on its own",
    "L033": "two lines calculate with the index, and each has to change",
    "M042": "the copy that interrupts the sum is also overwritten unread, a mistake of its own",
    "M044_quadrant": "the scales of both operands are misplaced, at different partitions",
    "S070": "two arguments are cut off, each along a dimension of its own",
}


def test_a_bad_twin_has_one_finding():
    text = told.FILE.read_text()
    found = {}
    for part in text.split("\n== ")[1:]:
        head, _, rest = part.partition("\n")
        name = head.split()[0]
        rules = re.findall(r"^(?:error|warning|note)\[(\w+)\]", rest, re.M)
        if rules and rules != [name.split("_")[0]]:
            found[name] = rules
    assert set(found) == set(SEVERAL), found


# -- what follows from one mistake -----------------------------------------------------------------


def softmax(tile, result):
    """Some instructions on a tile."""
    total = nl.ndarray((tile.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.exp, data=tile)
    nisa.tensor_tensor(dst=result, data1=result, data2=tile, op=nl.add)
    nisa.tensor_reduce(dst=total, op=nl.add, data=result, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=result, data=result, op0=nl.multiply, operand0=total)


def worked(tile):
    result = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    softmax(tile, result)
    return stored(result)


def too_large(a):
    tile = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    return worked(tile)


def too_large_in_language(a):
    tile = nl.load(a)
    weights = nl.exp(nl.subtract(tile, tile))
    return stored(nl.multiply(weights, 2.0))


def too_wide_for_an_instruction(a):
    tile, result = (nl.ndarray((1, 66000), dtype=nl.bfloat16, buffer=nl.sbuf) for _ in range(2))
    nisa.memset(dst=tile, value=1.0)
    nisa.activation(dst=result, op=nl.exp, data=tile)
    nisa.tensor_tensor(dst=result, data1=result, data2=tile, op=nl.add)
    return stored(result)


def many_dimensions(a):
    tile = nl.ndarray((64, 2, 2, 2, 2, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.reshape(tile.shape))
    result = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.exp, data=tile)
    return stored(result)


def unaligned_start(a):
    tile = nl.load(a)
    part = tile[10:50]
    for _ in range(2):
        nisa.activation(dst=part, op=nl.exp, data=part)
    nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0)
    return stored(tile)


def logarithm_of_zero(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.0)
    nisa.activation(dst=tile, op=nl.log, data=tile)
    return worked(tile)


def division_by_zero(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.0)
    nisa.reciprocal(dst=tile, data=tile)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.subtract)
    return worked(tile)


def function_of_numpy(a):
    return worked(np.sqrt(nl.load(a)))


MISTAKES = [
    (too_large, (128, 70000), "M009", "error"),
    (too_large_in_language, (128, 70000), "M009", "error"),
    (too_wide_for_an_instruction, (64, 32), "S060", "error"),
    (many_dimensions, (64, 32), "S065", "error"),
    (unaligned_start, (64, 32), "S004", "error"),
    (logarithm_of_zero, (64, 32), "D021", "error"),
    (division_by_zero, (64, 32), "D042", "warning"),
    (function_of_numpy, (64, 32), "L027", "error"),
]


@each_case("values", [True, False])
@each_case(
    ("kernel", "shape", "rule", "severity"), MISTAKES, ids=lambda k: getattr(k, "__name__", "")
)
def test_what_follows_is_no_finding(kernel, shape, rule, severity, values):
    if not values and rule in ("D021", "D042"):
        return
    report = nkisim.check(kernel, target="gen3", values=values, source=rule == "L027")(f32(*shape))
    assert [(f.rule.id, f.severity) for f in report.findings] == [(rule, severity)], str(report)


def test_other_places_are_named():
    report = nkisim.check(unaligned_start, target="gen3")(f32(64, 32))
    (finding,) = report.findings
    assert finding.notes[0] == "also data"
    assert finding.notes[1].startswith(f"also tensor_scalar dst at {__file__}:")
    assert finding.count == 2  # of the line in the loop


# -- mistakes of their own -------------------------------------------------------------------------


def codes(kernel, *arguments):
    return [f.rule.id for f in nkisim.check(kernel, target="gen3")(*arguments).findings]


def test_two_tiles_are_two_causes():
    def kernel(a):
        first = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
        second = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=first, data2=second, op=nl.add)
        return stored(total)

    assert codes(kernel, f32(64, 32)) == ["M001", "M001"]


def test_two_views_are_two_causes():
    def kernel(a):
        tile = nl.load(a)
        nisa.activation(dst=tile[10:50], op=nl.exp, data=tile[10:50])
        nisa.activation(dst=tile[20:60], op=nl.exp, data=tile[20:60])
        return stored(tile)

    assert codes(kernel, f32(64, 32)) == ["S004", "S004"]


def test_two_tiles_too_large_are_two_causes():
    def kernel(a):
        first = nl.ndarray((64, 70000), dtype=nl.float32, buffer=nl.sbuf)
        second = nl.ndarray((64, 80000), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=first, value=0.0)
        nisa.memset(dst=second, value=0.0)
        return stored(nl.load(a))

    assert codes(kernel, f32(64, 32)).count("M009") == 2


def test_small_tiles_beside_one_that_is_too_large_are_still_counted():
    def kernel(a):
        huge = nl.ndarray((128, 70000), dtype=nl.float32, buffer=nl.sbuf)
        tiles = [nl.ndarray((128, 30000), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        for tile in (huge, *tiles):
            nisa.memset(dst=tile, value=1.0)
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tiles[1], op=nl.add)
        out = nl.ndarray((128, 30000), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tiles[0])
        return out

    assert {"M008", "M009"} <= set(codes(kernel, f32(64, 32)))


def test_two_instructions_that_make_infinity_are_two_causes():
    def kernel(a):
        first, second = nl.load(a), nl.load(a)
        for tile in (first, second):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.0)
        nisa.reciprocal(dst=first, data=first)
        nisa.reciprocal(dst=second, data=second)
        return stored(first), stored(second)

    assert codes(kernel, f32(64, 32)) == ["D042", "D042"]


@pytest.mark.parametrize("silenced", [True, False])
def test_a_comment_silences_its_own_line_only(silenced, tmp_path):
    comment = "  # nkisim: ignore[S004]" if silenced else ""
    file = tmp_path / "silenced.py"
    file.write_text(
        "import nkisim.isa as nisa\nimport nkisim.language as nl\n\n\n"
        "def kernel(a):\n    tile = nl.load(a)\n    part = tile[10:50]\n"
        f"    nisa.activation(dst=part, op=nl.exp, data=part){comment}\n"
        "    nisa.activation(dst=part, op=nl.tanh, data=part)\n"
        "    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, tile)\n    return out\n"
    )
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    report = nkisim.check(names["kernel"], source=False)(f32(64, 32))
    assert [f.line for f in report.findings] == [9 if silenced else 8]
