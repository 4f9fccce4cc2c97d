"""Properties of operands, for every operand of every instruction.

What an instruction computes and what is found in its call depend on the elements that an operand
names, not on how they are named: by a slice, by an offset in a register or a tile, by a view of
such a view. Values, and plans of earlier calls, change no finding.
"""

from dataclasses import replace

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same_bits
from each_case import each_case
from nkisim.machine import core as machine
from nkisim.machine.calls.dispatch import _operand_key

from .samples import SAMPLES, Tile, fill, run, whole

OPERANDS = [
    pytest.param(sample, name, id=f"{sample.name}-{name}")
    for sample in SAMPLES
    for name in sample.tiles
]

# What the compiler says about dynamic addresses as such.
DYNAMIC = {"A036", "M039", "M050", "M053"}


def wide_of(tile: Tile, source):
    """A tensor three times as wide (on chip) or long (in HBM), with the contents in its middle."""
    rows, columns = tile.shape
    if tile.buffer == "hbm":
        wide = nl.ndarray((3 * rows, columns), dtype=tile.dtype, buffer=nl.shared_hbm)
        middle = wide[rows : 2 * rows, :]
        pattern, dim, offset = [[columns, rows], [1, columns]], 0, rows
    else:
        wide = nl.ndarray((rows, 3 * columns), dtype=tile.dtype, buffer=tile.region)
        middle = wide[:, columns : 2 * columns]
        pattern, dim, offset = [[3 * columns, rows], [1, columns]], 1, columns
    fill(middle, source)
    return wide, middle, pattern, dim, offset


def register(offset):
    return nisa.register_alloc(offset)


def tile_offset(offset):
    tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=offset)
    return tile


def placed(chosen, how):
    """Place the chosen operand as ``how`` says, all others whole."""

    def place(name, tile, source):
        return how(tile, source) if name == chosen else whole(name, tile, source)

    return place


def sliced(tile, source):
    return wide_of(tile, source)[1]


def dynamic(make_offset):
    def how(tile, source):
        wide, middle, pattern, dim, offset = wide_of(tile, source)
        view = wide.ap(pattern=pattern, scalar_offset=make_offset(offset), indirect_dim=dim)
        return view, middle

    return how


def outcome(sample, place, **options):
    found = run(sample, place, **options)
    return found.outputs, sorted(f.rule.id for f in found.findings if f.rule.id not in DYNAMIC)


def assert_same(one, other):
    assert one[1] == other[1]
    assert one[0].keys() == other[0].keys()
    for name in one[0]:
        assert_same_bits(one[0][name], other[0][name])


def by_turns(*values):
    """Every operand with one of the values, in turn."""
    for number, operand in enumerate(OPERANDS):
        yield pytest.param(*operand.values, values[number % len(values)], id=operand.id)


OFFSETS = [(nkisim.check, register), (nkisim.simulate, tile_offset)]
OFFSETS += [(nkisim.check, tile_offset), (nkisim.simulate, register)]


@each_case(("sample", "name", "how"), by_turns(*OFFSETS))
def test_an_operand_with_a_dynamic_offset_equals_its_slice(sample, name, how):
    assert_offset_is_a_slice(sample, name, *how)


@pytest.mark.slow
@each_case(("entry", "offset"), OFFSETS)
@each_case(("sample", "name"), OPERANDS)
def test_all_dynamic_offsets_equal_their_slices(sample, name, entry, offset):
    assert_offset_is_a_slice(sample, name, entry, offset)


def assert_offset_is_a_slice(sample, name, entry, offset):
    static = outcome(sample, placed(name, sliced), entry=entry)
    assert_same(static, outcome(sample, placed(name, dynamic(offset)), entry=entry))


def reshaped(view):
    rows, columns = view.shape
    return view.reshape((rows, columns, 1)).reshape((rows, columns))


def reinterpreted(view):
    bits = {1: nl.uint8, 2: nl.uint16, 4: nl.uint32}[view.dtype.itemsize]
    return view.view(bits).view(view.dtype)


def expanded(view):
    return nl.expand_dims(view, 2)[:, :, 0] if view.buffer in (nl.sbuf, nl.psum) else view


def sliced_again(view):
    rows, columns = view.shape
    return view[0:rows, 0:columns]


def patterned(view):
    rows, columns = view.shape
    return view.ap(pattern=[[columns, rows], [1, columns]])


VIEWS = [reshaped, reinterpreted, expanded, sliced_again, patterned]


def viewed(fast):
    """Operands and views: of each operand one view is fast, of each view one operand in five."""
    for number, operand in enumerate(OPERANDS):
        for place, again in enumerate(VIEWS):
            if again is reinterpreted and operand.values[0].nki >= "0.5.0":
                continue  # later versions refuse view() of a dynamic view
            if ((place - number) % len(VIEWS) == 0) == fast:
                yield pytest.param(*operand.values, again, id=f"{operand.id}-{again.__name__}")


@each_case(("sample", "name", "again"), viewed(fast=True))
def test_a_view_of_a_dynamic_view_keeps_its_offset(sample, name, again):
    assert_view_keeps_the_offset(sample, name, again)


@pytest.mark.slow
@each_case(("sample", "name", "again"), viewed(fast=False))
def test_the_other_views_of_a_dynamic_view_keep_its_offset(sample, name, again):
    assert_view_keeps_the_offset(sample, name, again)


def assert_view_keeps_the_offset(sample, name, again):
    def views_of(how):
        def place(tile, source):
            made = how(tile, source)
            view, static = made if isinstance(made, tuple) else (made, made)
            return again(view), static

        return place

    static = outcome(sample, placed(name, views_of(sliced)))
    moved = outcome(sample, placed(name, views_of(dynamic(register))))
    assert_same(static, moved)


@each_case(("sample", "name", "offset"), by_turns(register, tile_offset))
def test_a_dynamic_offset_that_leaves_the_tensor_is_refused(sample, name, offset):
    """Also one that would reach into the next partition."""

    def how(tile, source):
        wide, middle, pattern, dim, _ = wide_of(tile, source)
        extent = wide.shape[dim]
        start = extent - 1 if tile.shape[dim] > 1 else extent
        view = wide.ap(pattern=pattern, scalar_offset=offset(start), indirect_dim=dim)
        return view, middle

    if sample.declaration.operands[name.split("[")[0]].role == "named":
        pytest.skip("a tensor that is only named has no elements to reach")
    with pytest.raises(nkisim.NkiValidationError, match=r"S021|M036"):
        run(sample, placed(name, how), entry=nkisim.simulate)


def unwritten(tile, source):
    return whole("", tile, None)


HOW = unwritten, dynamic(register)


@each_case(("sample", "name", "how"), by_turns(*HOW))
def test_a_run_without_values_finds_the_same(sample, name, how):
    assert_values_change_no_finding(sample, name, how)


@pytest.mark.slow
@each_case(("sample", "name", "how"), by_turns(*HOW[::-1]))
def test_a_run_without_values_finds_the_same_the_other_way(sample, name, how):
    assert_values_change_no_finding(sample, name, how)


def assert_values_change_no_finding(sample, name, how):
    """Among the rules that do not look at values."""
    if sample.grid > 1:
        pytest.skip("what two cores exchange is values")
    computed, noted = (
        {
            f.rule
            for f in run(sample, placed(name, how), values=values).findings
            if not f.rule.on_values
        }
        for values in (True, False)
    )
    if sample.declaration.operands[name.split("[")[0]].masked:
        assert noted <= computed  # what was written is not known without values
    else:
        assert noted == computed


@pytest.mark.parametrize("sample", [pytest.param(s, id=s.name) for s in SAMPLES])
def test_a_warm_plan_equals_a_cold_one(sample, monkeypatch):
    monkeypatch.setattr(machine, "_PLANS", {})
    for entry in (nkisim.check, nkisim.simulate):
        cold = outcome(sample, whole, entry=entry)
        assert_same(cold, outcome(sample, whole, entry=entry))


def test_a_wide_tensor_is_wider_than_its_operand():
    tile = Tile((4, 8), nl.float32, np.zeros((4, 8), np.float32))

    def kernel(x):
        wide, middle, pattern, _, offset = wide_of(tile, x)
        assert wide.shape == (4, 24)
        assert middle.offset == offset == 8
        assert pattern == [[24, 4], [1, 8]]
        return x

    nkisim.simulate(kernel)(tile.values)


NUMBERS = [
    pytest.param(sample, name, id=f"{sample.name}-{name}")
    for sample in SAMPLES
    for name, operand in sample.declaration.operands.items()
    if operand.scalar and not isinstance(sample.settings.get(name), str)
]


@each_case(("sample", "operand"), NUMBERS)
def test_constraints_do_not_tell_numbers_apart_that_share_a_plan(sample, operand, monkeypatch):
    """A plan is made for one of them and serves all: those whose key is the same."""

    def findings(number):
        monkeypatch.setattr(machine, "_PLANS", {})
        tiles = {name: tile for name, tile in sample.tiles.items() if name != operand}
        called = replace(sample, tiles=tiles, settings={**sample.settings, operand: number})
        try:
            return sorted(
                f.rule.id for f in run(called, values=False, target=sample.targets[-1]).findings
            )
        except nkisim.NkiValidationError as refused:
            return refused.rule_id

    numbers = {}
    for number in (0.5, -3.0, 1.0, 1e30, 1e-40, float("inf"), float("nan"), 1, -5, 2**24):
        numbers.setdefault(_operand_key(number), []).append(number)
    for first, *others in numbers.values():
        if others:
            found = findings(first)
            assert [findings(number) for number in others] == [found] * len(others)
