"""Predicted times of plans: figures of UltraServers, and laws that no prediction breaks."""

import random

import pytest

from trnsci.core.distributed.plans import Communication, Step, agreement_step
from trnsci.core.distributed.predictions import ULTRASERVERS, Link
from trnsci.core.errors import FlagError

KINDS = ("broadcast", "all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def _plan(ranks, *steps):
    return Communication("f", "a problem", (ranks,), steps, lambda rank: 0)


def _random(draw):
    """Return a plan of random steps."""
    ranks, steps = draw.randint(1, 6), []
    for _ in range(draw.randint(1, 8)):
        if draw.random() < 0.4:
            flops = tuple(draw.choice([0, 10**8, 10**12]) for _ in range(ranks))
            moved = tuple(draw.choice([0, 10**6, 10**10]) for _ in range(ranks))
            steps.append(Step("compute", "work", (0,) * ranks, 0, flops, moved))
        else:
            received = tuple(draw.choice([0, 10**3, 10**9]) for _ in range(ranks))
            overlapped, messages = draw.random() < 0.5, draw.randint(0, 9)
            kind = draw.choice(KINDS)
            steps.append(Step(kind, "x", received, messages, overlapped=overlapped))
    return _plan(ranks, *steps)


def test_ultraservers_have_the_documented_ranks_and_rates():
    trn2, trn3 = ULTRASERVERS["trn2"], ULTRASERVERS["trn3"]
    assert (trn2.ranks(1), trn2.ranks(2)) == (512, 256)
    assert (trn3.ranks(1), trn3.ranks(2)) == (1152, 576)
    # The ranks of a chip receive half of what its NeuronLink moves: 1.28 and 2.56 TB/s.
    assert trn2.link(1).bandwidth * 8 == trn2.link(2).bandwidth * 4 == 0.64e12
    assert trn3.link(1).bandwidth * 8 == trn3.link(2).bandwidth * 4 == 1.28e12


def test_a_step_takes_bytes_over_bandwidth_and_messages():
    step = Step("all_gather", "x", (10, 4_000_000), 3)
    found = _plan(2, step).predicted(Link(2e9, 1e-6))
    assert found.seconds == pytest.approx(2e-3 + 3e-6)
    assert "given link: a rank is two cores, receives 2 GB/s, 1 us per message" in str(found)


def test_a_computation_takes_a_launch_and_the_longer_of_work_and_bytes():
    # Peaks of a gen3 core: 19.66 TFLOP/s in float32, 78.64 in bfloat16, 368 GB/s.
    work = Step("compute", "w", (0,), 0, (10**12,), (10**3,))
    moved = Step("compute", "w", (0,), 0, (10**3,), (10**9,))
    for step, dtype, seconds in (
        (work, "float32", 1 / 19.66),
        (work, "bfloat16", 1 / 78.64),
        (moved, "float32", 1 / 368),
    ):
        found = _plan(1, step).predicted(lnc=1, dtype=dtype)
        assert found.seconds == pytest.approx(seconds + 9.4e-6, rel=1e-3)
        pair = _plan(1, step).predicted(lnc=2, dtype=dtype)
        assert pair.seconds == pytest.approx(seconds / 2 + 9.4e-6, rel=1e-3)
    several = Step("compute", "w", (0,), launches=3)
    assert _plan(1, several).predicted().seconds == pytest.approx(3 * 9.4e-6)


def test_no_prediction_is_below_its_work_or_its_bytes():
    draw = random.Random(4)
    for _ in range(300):
        plan = _random(draw)
        link = Link(draw.choice([1e9, 1e11]), draw.choice([0.0, 1e-6, 1e-4]))
        found = plan.predicted(link)
        moving = sum(
            link.seconds(max(step.received), step.messages)
            for step in plan.steps
            if step.kind != "compute"
        )
        assert found.seconds >= 0.999999 * max(found.computing, moving)
        assert found.seconds <= 1.000001 * (found.computing + moving)
        assert sum(part.hidden for part in found.parts) <= 1.000001 * found.computing
        faster = plan.predicted(Link(2 * link.bandwidth, link.latency / 2))
        assert faster.seconds <= 1.000001 * found.seconds


def test_a_planted_overlap_is_hidden_up_to_its_first_message():
    moving = Step("broadcast", "x", (10**9,), 10, overlapped=True)
    work = Step("compute", "w", (0,), 0, (10**13,))
    link = Link(1e11, 0.0)
    hidden = _plan(1, moving, work).predicted(link)
    assert hidden.seconds == pytest.approx(hidden.computing + 0.01 / 10)
    apart = _plan(1, Step("broadcast", "x", (10**9,), 10), work).predicted(link)
    assert apart.seconds == pytest.approx(apart.computing + 0.01)
    assert _plan(1, moving).predicted(link).seconds == pytest.approx(0.01)


def test_more_ranks_than_an_ultraserver_need_a_link():
    plan = _plan(512, agreement_step((512,)))
    with pytest.raises(FlagError, match="the 256 of a Trn2 UltraServer, a rank being two cores"):
        plan.predicted()
    assert plan.predicted(lnc=1).seconds > 0
    assert plan.predicted(Link(1e10, 15e-6)).seconds > plan.predicted(server="trn3").seconds


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"server": "trn1"}, "server must be trn2 or trn3, got 'trn1'"),
        ({"lnc": 3}, "lnc must be 1 or 2, got 3"),
        ({"dtype": "float64"}, "dtype must be float32 or bfloat16, got 'float64'"),
    ],
)
def test_bad_options_are_refused(options, text):
    with pytest.raises(FlagError, match=text):
        _plan(1, agreement_step((1,))).predicted(**options)


@pytest.mark.parametrize("values", [(0, 1e-6), (-1.0, 0), (1e9, -1e-6), (float("nan"), 0)])
def test_bad_links_are_refused(values):
    with pytest.raises(FlagError, match="bandwidth must be positive and latency not negative"):
        Link(*values)
