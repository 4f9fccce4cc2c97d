"""Plans of distributed calls: sums of steps, the ratio to a bound, and the printed table."""

from trnsci.core.distributed.plans import (
    Communication,
    LowerBound,
    Step,
    agreement_step,
    all_reduced,
)

STEPS = (
    agreement_step((2, 1)),
    Step("broadcast", "A", (0, 100), 1),
    Step("compute", "products", (0, 0), 0, (10, 20)),
)


def test_sums_of_steps():
    found = Communication(
        "f",
        "problem",
        (2, 1),
        STEPS,
        [50, 60].__getitem__,
        LowerBound(40, "name"),
        (Step("x", "y", (7, 9)),),
    )
    assert found.ranks == 2
    assert [found.received(rank) for rank in (0, 1)] == [512, 612]
    assert [found.received(rank, backward=True) for rank in (0, 1)] == [7, 9]
    assert found.most_received == 100
    assert found.total == 1124
    assert found.ratio == 2.5
    assert found.peak_bytes == (50, 60)
    assert str(found).splitlines() == [
        "f on 2 x 1 ranks: problem",
        "step            what                            bytes received at most  messages",
        "all_gather      arguments of the call                              512         1",
        "broadcast       A                                                  100         1",
        "compute         products                                             0         0",
        "in all                                                             612         2",
        "lower bound 40 bytes (name), ratio 2.50",
        "backward 9 bytes received at most in 1 steps",
    ]


def test_without_a_bound_there_is_no_ratio():
    assert Communication("f", "", (2,), STEPS, [0, 0].__getitem__).ratio is None
    assert Communication("f", "", (2,), STEPS, [0, 0].__getitem__, LowerBound(0, "")).ratio is None


def test_all_reduce_is_rounded_up():
    assert [all_reduced(7, ranks) for ranks in (1, 2, 3, 4)] == [0, 7, 10, 11]
