"""Lets torch.compile follow the choice of a backend, and notice when it changes.

Context variables are opaque to it, so it reads a copy that belongs to the thread. What cannot
change while a process lives is a constant to it. The rest it traces, with a guard on each value
that it reads, the environment included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trnsci.core import backend, environment

__all__ = ["constant_to_compile"]

constant_to_compile: Callable[[Callable[..., Any]], Any] = torch.compiler.assume_constant_result

constant_to_compile(backend.device_ready)
constant_to_compile(environment.flag_value)  # of a name and a value, which are guarded


@torch.compiler.substitute_in_graph(backend.chosen_in_context)
def _chosen_in_thread(choice: backend.ContextChoice) -> str | None:
    return getattr(choice.traced, "name", None)
