"""Answers stand until what they depend on changes, and are never True when it is not so."""

import threading

import pytest
import torch

from trnsci.core import device
from trnsci.core.explanation import RUNNING
from trnsci.core.setting import Setting
from trnsci.core.standing import Standing, asked_again, withdrawn


def test_a_question_is_asked_at_once_and_after_changes():
    truth = [True]
    standing = Standing(lambda: truth[0])
    assert standing.answer is True
    truth[0] = False
    assert standing.answer is True
    asked_again()
    assert standing.answer is False


def test_what_is_withdrawn_comes_back_with_the_next_change():
    standing = Standing(lambda: True)
    withdrawn()
    assert standing.answer is False
    asked_again()
    assert standing.answer is True


def test_a_setting_tells_of_choices_and_of_its_first_block():
    setting = Setting("test.setting", "plain")
    standing = Standing(lambda: setting.default == "plain" and not setting.scoped)
    setting.set("other")
    assert standing.answer is False
    setting.set("plain")
    assert standing.answer is True
    with setting.scope("block"):
        assert standing.answer is False
    assert standing.answer is False


def test_a_choice_inside_a_compiled_function_withdraws_answers():
    setting = Setting("test.setting", "plain")
    standing = Standing(lambda: setting.default == "plain")
    torch._dynamo.reset()

    @torch.compile(backend="eager", fullgraph=True)
    def choose(x):
        setting.set("other")
        return x + 1

    choose(torch.zeros(1))
    assert setting.get() == "other"
    assert standing.answer is False
    torch._dynamo.reset()


class TestLibrary:
    def test_it_is_at_rest_once_no_device_was_found(self, library):
        assert library.at_rest.answer is False
        assert library.kernels_wanted() is False
        assert library.at_rest.answer is True
        device.forget_device()
        assert library.at_rest.answer is False

    def test_torch_chosen_needs_no_look_for_a_device(self, library):
        library.set_backend("pytorch")
        assert library.at_rest.answer is True
        assert device.probed == []

    @pytest.mark.parametrize("name", ["simulator", "auto", "pytorch"])
    def test_choices_and_blocks(self, library, name):
        library.kernels_wanted()
        library.set_backend(name)
        assert library.at_rest.answer is (name != "simulator")
        library.set_backend("auto")
        assert library.at_rest.answer is True
        with library.backend(name):
            assert library.at_rest.answer is False

    def test_a_device_ends_it(self, library, fake_neuron):
        fake_neuron()
        assert library.kernels_wanted() is True
        assert library.at_rest.answer is False

    def test_an_explanation_ends_it_while_it_is_made(self, library):
        library.kernels_wanted()
        RUNNING.add(1)
        try:
            assert library.at_rest.answer is False
        finally:
            RUNNING.add(-1)
        assert library.at_rest.answer is True


def test_of_two_changes_at_once_the_later_has_the_last_word():
    truth, asking, changed = [True], threading.Event(), threading.Event()

    def question():
        seen = truth[0]
        if asking.is_set() and seen:
            other.start()
            changed.wait(0.1)  # in vain: the other change waits for this answer
        return seen

    def change():
        truth[0] = False
        asked_again()
        changed.set()

    standing = Standing(question)
    other = threading.Thread(target=change)
    asking.set()
    asked_again()
    other.join()
    assert standing.answer is False
