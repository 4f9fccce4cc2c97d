"""Choices of the process and of blocks, across threads, copied contexts and compiled graphs."""

from __future__ import annotations

import contextvars
import threading

import pytest
import torch

from trnsci.core.backend.setting import Setting, restored, snapshot


@pytest.fixture
def setting():
    return Setting("test.setting", "plain")


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_block_wins_over_the_process_and_ends(setting):
    setting.set("process")
    with setting.scope("block"):
        assert setting.get() == "block"
        setting.set("changed")
        assert setting.get() == "changed"
        assert in_thread(setting.get) == "process"
    assert setting.get() == "process"
    assert repr(setting) == "<setting test.setting: 'process'>"


def test_a_block_that_raises_ends_too(setting):
    with pytest.raises(KeyError), setting.scope("block"):
        raise KeyError
    assert setting.get() == "plain"


def test_after_a_block_a_choice_is_the_processes_again(setting):
    with setting.scope("block"):
        pass
    setting.set("later")
    assert setting.get() == in_thread(setting.get) == "later"


def test_a_snapshot_is_in_force_again_in_another_thread(setting):
    other = Setting("test.other", 1)
    with setting.scope("block"):
        taken = snapshot()
    other.set(2)

    def seen():
        with restored(taken):
            inside = setting.get(), other.get()
        return inside, setting.get(), other.get()

    assert in_thread(seen) == (("block", 1), "plain", 2)


@pytest.fixture
def compiled(setting):
    torch._dynamo.reset()
    yield torch.compile(
        lambda x: x + {"plain": 1, "block": 2, "other": 3}[setting.get()],
        backend="eager",
        fullgraph=True,
    )
    torch._dynamo.reset()


def test_a_compiled_call_follows_blocks(setting, compiled):
    x = torch.zeros(1)
    seen = [compiled(x).item()]
    for name in ("block", "other", "block"):
        with setting.scope(name):
            seen.append(compiled(x).item())
        seen.append(compiled(x).item())
    assert seen == [1, 2, 1, 3, 1, 2, 1]


def test_a_compiled_call_follows_a_context_copied_to_another_thread(setting, compiled):
    x = torch.zeros(1)
    with setting.scope("block"):
        context = contextvars.copy_context()
    compiled(x)
    assert in_thread(lambda: context.run(compiled, x)).item() == 2
    assert in_thread(lambda: compiled(x)).item() == 1
