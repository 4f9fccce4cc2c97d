"""One core and its place among others: names, counts, registers, scratch memory."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

import nkisim.language as nl
from each_case import each_case
from nkisim.arch import GEN3
from nkisim.diagnostics import Place, Recorder
from nkisim.isa import engine as Engine
from nkisim.isa.random.rng import _Source
from nkisim.language import NkiTensor
from nkisim.machine.calls.effects import added_operands, step_of
from nkisim.machine.calls.operands import Rows
from nkisim.machine.calls.provenance import Target, propagate_taint
from nkisim.machine.calls.transfer import Partial
from nkisim.machine.cluster import Cluster, Member
from nkisim.machine.core import Accumulators, Core, Event, Garbage, Plans
from nkisim.machine.schedule import _Task
from nkisim.memory import Storage
from nkisim.memory.log import Lifetime
from nkisim.memory.tensor.geometry import Indirection
from nkisim.memory.tensor.indexing import DynSlice
from nkisim.spec import as_op
from releases import VERSIONS


def core(**options):
    return Core(GEN3, Recorder("simulate"), **options)


@pytest.mark.parametrize(
    ("ranks", "cores", "label", "index"),
    [(1, 2, "core 1", 1), (3, 1, "rank 2", 2), (3, 2, "rank 2 core 1", 5), (1, 1, "core 0", 0)],
)
def test_a_member_knows_its_place(ranks, cores, label, index):
    member = Member(Cluster(ranks, cores, None), ranks - 1, cores - 1)
    assert (member.label, member.index, member.synchronised) == (label, index, 0)
    placed = core(member=member)
    assert (placed.program_id, placed.num_programs) == (cores - 1, cores)


def test_passages_are_counted_for_each_core_and_kind():
    cluster = Cluster(2, 2, None)
    members = [Member(cluster, rank, number) for rank in range(2) for number in range(2)]
    assert [members[1].count("barrier") for _ in range(3)] == [1, 2, 3]
    assert members[1].count(("sendrecv", 0)) == 1
    assert members[0].counted(0, 1, "barrier") == 3
    assert members[0].counted(1, 1, "barrier") == 0
    assert members[3].count("barrier") == 1


def test_a_core_on_its_own():
    alone = core()
    assert (alone.program_id, alone.num_programs, alone.has_grid) == (0, 1, False)
    assert alone.version == VERSIONS[0] == "0.3.0"
    assert (alone.values, alone.clock, alone.no_reorder_depth) == (True, 0, 0)
    assert alone.tick is None
    assert alone.memory.precise


@pytest.mark.parametrize(
    "options",
    [
        {"watchers": (print,)},
        {"tracker": SimpleNamespace()},
        {"member": Member(Cluster(1, 2, None), 0, 0)},
    ],
)
def test_a_core_is_plain_when_nobody_looks(options):
    assert core().plain
    assert not core(**options).plain
    assert not Core(GEN3, Recorder("check")).plain
    assert Core(GEN3, Recorder("check"), values=False).plain


def test_instructions_without_a_plan_are_counted():
    ticks = []
    alone = core()
    alone.begin(shared=True)
    alone.tick = ticks.append
    alone.begin(shared=False)
    alone.begin(shared=True)
    assert (alone.clock, ticks) == (3, [False, True])


def test_registers_hold_nothing_at_first():
    found = core().accumulators(Engine.vector)
    assert found.values.shape == (128,)
    assert np.isnan(found.values).all()
    assert (found.owner, found.lanes, found.disturbed, found.used) == ("", (0, 0), "", (0, (0, 0)))
    column = found.rows(32, 4)
    assert column.shape == (4, 1)
    column[...] = 7
    assert np.flatnonzero(found.values == 7).tolist() == [32, 33, 34, 35]


def test_each_engine_has_registers_of_its_own():
    alone = core()
    vector = alone.accumulators(Engine.vector)
    assert alone.accumulators(Engine.vector) is vector
    assert alone.accumulators(Engine.scalar) is not vector
    alone.clock = 5
    assert alone.accumulators_in_use() == []
    vector.used = (5, (0, 4))
    assert alone.accumulators_in_use() == [vector]


def test_scratch_memory_grows_and_is_used_again():
    alone = core()
    small = alone.scratch(2, 3)
    assert (small.shape, small.dtype) == ((2, 3), np.float32)
    large = alone.scratch(4, 3)
    assert large.shape == (4, 3)
    assert np.shares_memory(alone.scratch(3, 4), large)
    assert np.shares_memory(alone.scratch(1, 1), large)
    assert not np.shares_memory(alone.scratch(4, 4), large)


def test_only_so_many_plans_are_kept(monkeypatch):
    monkeypatch.setattr("nkisim.machine.core._MOST_PLANS", 3)
    plans = Plans()
    for key in range(3):
        assert plans.add(key, f"plan {key}") == f"plan {key}"
    assert len(plans) == 3
    plans.add(3, "plan 3")
    assert plans == {3: "plan 3"}


# Garbage


def instruction(spread="elements", **operands):
    forms = {"chosen": False, "masked": False}
    made = {name: SimpleNamespace(**{**forms, **form}) for name, form in operands.items()}
    return SimpleNamespace(name="made up", spread=spread, operands=made)


def written_tile(alone):
    tile = alone.memory.allocate((4, 2), nl.float32, nl.sbuf)
    tile._storage.mark_written(tile.start, tile.runs)
    return tile


def garbage_in(tile):
    found = tile._storage.garbage(tile.region)
    return np.zeros((4, 2), int).tolist() if found is None else found.tolist()


ALL = np.full((4, 2), 6, np.uint8)
HALF = np.array([[True, False]] * 4)


def spread(declared, value=None, part=None, clock=9, values=True, operand="data"):
    alone = core(values=values)
    alone.clock = 9
    tile = written_tile(alone)
    alone.garbage.append(Garbage(clock, operand, ALL.copy()))
    propagate_taint(alone, declared, [Target(tile, part)], value)
    assert alone.garbage == []
    return garbage_in(tile)


def test_garbage_goes_where_a_result_went():
    declared = instruction(data={})
    assert spread(declared) == ALL.tolist()
    assert spread(declared, part=HALF) == np.where(HALF, 6, 0).tolist()
    partial = Partial(np.zeros((4, 2), np.float32), HALF)
    assert spread(declared, value=partial) == np.where(HALF, 6, 0).tolist()
    assert spread(declared, clock=8) == np.zeros((4, 2), int).tolist()


def test_what_is_chosen_is_not_known_without_values():
    declared = instruction(data={"chosen": True})
    assert spread(declared, values=False) == np.zeros((4, 2), int).tolist()
    assert spread(declared) == ALL.tolist()
    assert spread(instruction(data={}), values=False) == ALL.tolist()
    assert spread(declared, values=False, operand="registers") == ALL.tolist()


def test_registers_in_use_take_the_garbage_of_their_lanes():
    alone = core()
    alone.clock = 9
    registers = alone.accumulators(Engine.vector)
    registers.used = (9, (32, 4))
    rows = np.uint8([[0, 0], [0, 5], [0, 0], [7, 0]])
    alone.garbage.append(Garbage(9, "data", rows))
    propagate_taint(alone, instruction(data={}), [], None)
    assert registers.origins.shape == (128,)
    assert registers.origins[30:38].tolist() == [0, 0, 0, 5, 0, 7, 0, 0]


# What trackers see


def test_writes_are_certain_unless_a_mask_or_an_index_decides():
    tile = written_tile(core())
    table = Rows(tile, np.array([1, 3]), np.array([True, False]))
    declared = instruction(data={}, dst={}, masked={"masked": True})

    def step(read, name="dst"):
        arguments = (None, declared, Engine.vector, [("data", read, None)], [(name, tile, None)])
        return step_of(*arguments, lasts=False, adds_to=())

    assert step(tile).writes[0].certain
    assert not step(tile, "masked").writes[0].certain
    assert not step(table).writes[0].certain
    assert step(table._replace(inside=np.array([True, True]))).writes[0].certain
    assert step(table).reads[0].rows.tolist() == [1]
    assert step(tile).reads[0].rows is None
    assert step(tile).reads[0].plain


@each_case(
    ("operators", "added"),
    [
        ({"op": nl.add}, ("data1", "data2")),
        ({"op": nl.subtract}, ("data1", "data2")),
        ({"op": nl.multiply}, ()),
        ({"op0": nl.add, "op1": nl.add}, ("data", "operand1")),
        ({"op0": nl.multiply, "op1": nl.subtract}, ("operand1",)),
        ({"op0": nl.add, "op1": nl.multiply}, ()),
        ({"op0": nl.add, "op1": None}, ()),
        ({}, ()),
    ],
)
def test_what_a_result_is_a_sum_with(operators, added):
    assert added_operands({name: as_op(op) for name, op in operators.items()}) == added


# Records


@pytest.mark.parametrize(
    "record",
    [
        DynSlice(0, 4),
        Indirection("scalar", 3, 4, 8),
        Event(1, "memset", Engine.vector, (), (), Place("file.py", 3)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_of_a_run_do_not_change(record):
    name = next(iter(inspect.signature(type(record)).parameters))
    with pytest.raises(AttributeError):
        setattr(record, name, None)


@each_case(
    "kind",
    [DynSlice, Indirection, Event, Lifetime, NkiTensor, Storage, Accumulators, _Task, _Source],
    ids=str,
)
def test_what_is_made_by_the_thousand_has_no_dictionary(kind):
    assert "__dict__" not in dir(kind)
