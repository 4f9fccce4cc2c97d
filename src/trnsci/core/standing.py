"""Answers that stand until something they depend on changes.

Which path a call takes depends on the device, on what was chosen, and on whether somebody asks for
an explanation. To ask for all of these takes longer than a call has to lose beside a transform of
ten microseconds. But they seldom change: what changes one of them says so here, and a call looks at
one attribute, on which torch.compile can guard.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

__all__ = ["Standing", "asked_again", "withdrawn"]

# Held while questions are asked, so that of two changes the later one has the last word.
_LOCK = RLock()
_STANDING: list[Standing] = []


class Standing:
    """The answer to a question that is seldom answered otherwise.

    Args:
        question: What depends only on things whose changes call ``asked_again``. Where it is
            answered by True, calls may leave out other questions; False promises nothing.

    Attributes:
        answer: The answer that stands.
    """

    def __init__(self, question: Callable[[], bool]) -> None:
        self._question = question
        self.answer = False
        with _LOCK:
            _STANDING.append(self)
            self.answer = question()


def asked_again() -> None:
    """Answer all questions anew, after a change."""
    with _LOCK:
        for standing in _STANDING:
            standing.answer = standing._question()


def withdrawn() -> None:
    """Let no answer stand until the next change: for changes that torch.compile traces.

    It cannot trace a lock, and without one only False is never wrong.
    """
    for standing in _STANDING:
        standing.answer = False
