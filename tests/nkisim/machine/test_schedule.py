"""The schedule of several cores: one at a time, the same order every time, and it always ends."""

import contextvars

import numpy as np
import pytest

from each_case import each_case
from nkisim import NkiValidationError
from nkisim.diagnostics import Rule
from nkisim.machine.schedule import Schedule, Stopped

from ..harness_cores import SEEDS, no_hang, no_thread_left  # noqa: F401

STUCK = Rule("X001", "stuck", "error", "Nobody can move.", "it hangs", meaningless=True)
LATE = Rule("X002", "late", "error", "Nobody can move either.", "it hangs", meaningless=True)
RECORDED = Rule("X003", "recorded", "error", "Nobody can move.", "it hangs")


def labelled(*bodies):
    return [(f"core {i}", body) for i, body in enumerate(bodies)]


def traced(seed, cores=3, steps=6):
    """The order in which cores that may be preempted take their steps."""
    schedule, order = Schedule(seed), []

    def body(index):
        for _ in range(steps):
            order.append(index)
            schedule.tick(index)

    schedule.run(labelled(*(lambda i=i: body(i) for i in range(cores))))
    return order


# -- order -----------------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_bodies():
    schedule = Schedule()
    assert schedule.run(labelled(lambda: "a", lambda: None, lambda: "c")) == ["a", None, "c"]


def test_without_a_seed_cores_take_turns():
    assert traced(None) == [0, 1, 2] * 6


@each_case("seed", [None, *SEEDS])
def test_what_nobody_else_sees_gives_no_reason_to_hand_over(seed):
    schedule, order = Schedule(seed), []

    def body(index):
        for _ in range(5):
            schedule.tick(index, shared=False)
            order.append(index)

    schedule.run(labelled(*(lambda i=i: body(i) for i in range(3))))
    assert all(order[5 * k : 5 * k + 5] == [order[5 * k]] * 5 for k in range(3))


@each_case("rng_seed", range(20))
def test_shared_steps_come_in_the_order_of_one_instruction_each(rng_seed):
    # The oracle takes one step of each core in turn; the schedule may reorder only private steps.
    rng = np.random.default_rng(rng_seed)
    programs = [rng.random(rng.integers(5, 40)) < 0.3 for _ in range(3)]
    schedule, seen = Schedule(), []

    def body(index):
        for step, shared in enumerate(programs[index]):
            schedule.tick(index, shared=bool(shared))
            if shared:
                seen.append((step, index))

    schedule.run(labelled(*(lambda i=i: body(i) for i in range(3))))
    every = [(step, i) for i, program in enumerate(programs) for step in np.flatnonzero(program)]
    assert seen == sorted(every)


@each_case("seed", [None, *SEEDS])
def test_only_cores_that_share_memory_take_turns(seed):
    schedule, order = Schedule(seed, sharers=2), []

    def body(index):
        for _ in range(4):
            schedule.tick(index)
            order.append(index)

    schedule.run(labelled(*(lambda i=i: body(i) for i in range(6))))
    pairs = [index // 2 for index in order]
    assert all(len(set(pairs[8 * k : 8 * k + 8])) == 1 for k in range(3))
    if seed is None:
        assert order == [0, 1] * 4 + [2, 3] * 4 + [4, 5] * 4


def test_a_core_that_waited_goes_on_at_the_time_of_the_one_it_waited_for():
    schedule, came, order = Schedule(), [], []

    def early():
        schedule.wait(0, lambda: bool(came), "the late one", STUCK)
        for step in range(3):
            schedule.tick(0)
            order.append((0, step))

    def late():
        for _ in range(10):
            schedule.tick(1, shared=False)
        came.append(1)
        schedule.notify(1)
        for _ in range(2):
            schedule.tick(1, shared=False)
        for step in range(3):
            schedule.tick(1)
            order.append((1, step))

    schedule.run(labelled(early, late))
    # The late one was two steps further when it came to what both can see.
    assert order == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_a_waiting_core_lets_the_next_in_order_run():
    schedule, order, ready = Schedule(), [], set()

    def body(index):
        for step in range(3):
            order.append((index, step))
            ready.add((index, step))
            for other in range(3):
                schedule.wait(index, lambda o=other, s=step: (o, s) in ready, "others", STUCK)

    schedule.run(labelled(*(lambda i=i: body(i) for i in range(3))))
    # Core 2 finds everybody ready and goes on to the next step by itself; then 0 and 1 catch up.
    assert order == [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1), (1, 1), (1, 2), (0, 2), (2, 2)]


def test_what_is_ready_is_not_waited_for():
    schedule, order = Schedule(), []

    def first():
        schedule.wait(0, lambda: True, "nothing", STUCK)
        order.append("first")

    schedule.run(labelled(first, lambda: order.append("second")))
    assert order == ["first", "second"]


@each_case("seed", SEEDS)
def test_a_seed_gives_one_order(seed):
    order = traced(seed)
    assert sorted(order) == [0] * 6 + [1] * 6 + [2] * 6
    assert traced(seed) == order


def test_seeds_give_many_orders():
    # There are 18! / 6!^3, about 17 million, orders: equal ones among 20 are unlikely, and if the
    # turn did not change hands all would be equal.
    assert len({tuple(traced(seed)) for seed in range(20)}) > 15


@each_case("seed", [None, *SEEDS])
def test_one_core_moves_at_a_time(seed):
    schedule, inside, clashes = Schedule(seed), [], []

    def body(index):
        for _ in range(20):
            inside.append(index)
            for _ in range(200):
                if inside != [index]:
                    clashes.append(index)
            inside.remove(index)
            schedule.tick(index)

    schedule.run(labelled(*(lambda i=i: body(i) for i in range(4))))
    assert clashes == []


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_many_cores_meet_many_times(seed):
    schedule, cores, rounds = Schedule(seed), 64, 5
    arrived = [0] * rounds
    seen = []

    def body(index):
        for step in range(rounds):
            arrived[step] += 1
            schedule.wait(index, lambda s=step: arrived[s] == cores, "everybody", STUCK)
            seen.append(arrived[step])
        return index

    results = schedule.run(labelled(*(lambda i=i: body(i) for i in range(cores))))
    assert results == list(range(cores))
    assert seen == [cores] * (cores * rounds)


def test_cores_see_the_callers_context_and_not_each_others():
    variable = contextvars.ContextVar("variable")
    schedule = Schedule(0)

    def body(index):
        before = variable.get()
        variable.set(index)
        schedule.tick(index)
        return before, variable.get()

    variable.set("caller")
    results = schedule.run(labelled(*(lambda i=i: body(i) for i in range(3))))
    assert results == [("caller", 0), ("caller", 1), ("caller", 2)]
    assert variable.get() == "caller"


# -- errors ----------------------------------------------------------------------------------------


class Unusual(BaseException):
    pass


@each_case("error", [ValueError, AssertionError, KeyboardInterrupt, Unusual])
@each_case("guilty", [0, 1, 2])
def test_an_error_reaches_the_caller_unchanged(error, guilty):
    schedule, raised = Schedule(), error("[NCC_INKI016] Kernel validation exception: rows")

    def body(index):
        if index == guilty:
            raise raised
        schedule.wait(index, lambda: False, "what never comes", STUCK)

    with pytest.raises(error) as caught:
        schedule.run(labelled(*(lambda i=i: body(i) for i in range(3))))
    assert caught.value is raised
    assert caught.traceback[-1].name == "body"


def test_the_first_error_wins():
    schedule, reached = Schedule(), []

    def waits():
        schedule.wait(0, lambda: bool(reached), "the second", STUCK)
        raise ValueError("later")

    def fails():
        reached.append(1)
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        schedule.run(labelled(waits, fails))


def test_an_error_on_the_way_out_does_not_replace_the_first():
    schedule, unwound = Schedule(), []

    def waits():
        try:
            schedule.wait(0, lambda: False, "what never comes", STUCK)
        finally:
            unwound.append("waits")
            raise RuntimeError("on the way out")

    def fails():
        raise ValueError("the cause")

    with pytest.raises(ValueError, match="the cause"):
        schedule.run(labelled(waits, fails))
    assert unwound == ["waits"]


def test_a_core_that_has_not_begun_does_not_run_after_an_error():
    begun = []

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Schedule().run(labelled(fails, lambda: begun.append(1)))
    assert begun == []


@each_case("seed", SEEDS)
def test_an_error_beats_the_deadlock_that_it_causes(seed):
    schedule = Schedule(seed)

    def waits(index):
        schedule.tick(index)
        schedule.wait(index, lambda: False, "core 0", STUCK)

    def fails():
        schedule.tick(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        schedule.run(labelled(fails, lambda: waits(1), lambda: waits(2)))


def test_a_core_that_swallows_everything_cannot_stop_the_end():
    schedule, swallowed = Schedule(), []

    def stubborn():
        for _ in range(3):
            try:
                schedule.wait(0, lambda: False, "what never comes", STUCK)
            except BaseException as stop:
                swallowed.append(type(stop))
        return "through"

    with pytest.raises(NkiValidationError):
        schedule.run(labelled(stubborn, lambda: None))
    assert swallowed == [Stopped] * 3


# -- deadlocks -------------------------------------------------------------------------------------


def waits_at_a_line(schedule, index, rule):
    schedule.wait(index, lambda: False, f"a thing of core {index}", rule)


LINE = waits_at_a_line.__code__.co_firstlineno + 1


@each_case("seed", [None, *SEEDS])
def test_a_deadlock_names_every_core_and_its_place(seed):
    schedule = Schedule(seed)
    bodies = [
        lambda: None,
        lambda: waits_at_a_line(schedule, 1, LATE),
        lambda: schedule.wait(2, lambda: False, "another thing", STUCK),
    ]
    here = bodies[2].__code__.co_firstlineno
    with pytest.raises(NkiValidationError) as caught:
        schedule.run(labelled(*bodies))
    finding = caught.value.finding
    assert set(finding.notes) == {
        f"core 1 waits for a thing of core 1 at {__file__}:{LINE}",
        f"core 2 waits for another thing at {__file__}:{here}",
        "core 0 has ended",
    }
    assert all(note in str(caught.value) for note in finding.notes)
    # The finding itself is the first core's, whatever the order in which they came to wait.
    assert (caught.value.rule_id, finding.file, finding.line) == ("X002", __file__, LINE)
    assert finding.operand == "core 1"
    assert finding.fix


def test_the_only_core_can_be_stuck():
    schedule = Schedule()
    with pytest.raises(NkiValidationError) as caught:
        schedule.run(labelled(lambda: waits_at_a_line(schedule, 0, STUCK)))
    assert caught.value.rule_id == "X001"


def test_a_deadlock_that_need_not_raise_still_ends_the_run():
    schedule, after = Schedule(), []

    def body():
        waits_at_a_line(schedule, 0, RECORDED)
        after.append(1)

    with pytest.raises(Stopped):
        schedule.run(labelled(body))
    assert after == []


def test_a_core_that_waits_for_a_live_one_is_not_stuck():
    schedule, done = Schedule(3), []

    def works():
        for _ in range(50):
            schedule.tick(1)
        done.append(1)

    def waits():
        schedule.wait(0, lambda: bool(done), "the work", STUCK)
        return len(done)

    assert schedule.run(labelled(waits, works)) == [1, None]
