"""What a tracker is told of an instruction that has no plan."""

import pytest

from nkisim.isa import engine as Engine
from nkisim.machine.tracking import Effect, Step, Tracked


class Listening:
    """Takes down what it is told."""

    def __init__(self):
        self.heard = []

    def before(self, step):
        self.heard.append(("before", step.instruction))

    def after(self, step):
        self.heard.append(("after", step.instruction))


STEP = Step(None, "register_load", Engine.unknown)


def test_it_is_told_before_and_after():
    tracker = Listening()
    with Tracked(tracker, STEP):
        assert tracker.heard == [("before", "register_load")]
    assert tracker.heard == [("before", "register_load"), ("after", "register_load")]


def test_what_failed_has_written_nothing():
    tracker = Listening()
    with pytest.raises(ValueError, match="on the way"), Tracked(tracker, STEP):
        raise ValueError("on the way")
    assert tracker.heard == [("before", "register_load")]


def test_nobody_need_listen():
    with Tracked(None, STEP):
        pass


def test_an_effect_is_plain_when_exactly_the_view_is_touched():
    effect = Effect("dst", None)
    assert effect.plain
    assert not effect._replace(certain=False).plain
    assert not effect._replace(rows=[1]).plain
    assert not effect._replace(part=[True]).plain
    assert STEP.lasts is False
