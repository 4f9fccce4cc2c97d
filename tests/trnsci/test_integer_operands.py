"""Integers as any operand of any function: refused by name or an error, and no kernel fails."""

from __future__ import annotations

import importlib
import warnings
from contextlib import suppress

import pytest
import torch

from public_calls import CALLS, LIBRARIES, function_of
from trnsci.core.counters import counts


def with_integers(call):
    """Yield the call with each tensor alone, and then with all of them, as integers."""
    places = [at for at, value in enumerate(call.args) if isinstance(value, torch.Tensor)]
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
        for chosen in (*([at] for at in places), places):
            values = enumerate(call.args)
            yield [
                (x.real if x.is_complex() else x).to(dtype) if at in chosen else x
                for at, x in values
            ]


@pytest.mark.parametrize("library", LIBRARIES)
def test_integers_make_no_kernel_fail(library):
    failed = {}
    on = importlib.import_module(library).backend
    for name, call in CALLS.items():
        if not name.startswith(f"{library}."):
            continue
        for values in with_integers(call):
            before = counts()
            with on("simulator"), warnings.catch_warnings(), suppress(Exception):
                warnings.simplefilter("ignore")
                function_of(name)(*values, **call.options)
            found = (counts() - before).fallbacks
            if found:
                kinds = tuple(x.dtype for x in values if isinstance(x, torch.Tensor))
                failed[name, kinds] = dict(found)
    assert not failed
