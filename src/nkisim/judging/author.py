"""The child that imports the kernel's file: it finds arguments, and records the kernel.

It is given shapes, dtypes and constants, never an input, and decides nothing: what it sends is data
that the parent checks.
"""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import nkisim.language as nl
from nkisim.api import Kernel, as_kernel
from nkisim.checks import file_findings
from nkisim.filecheck.arguments import parse_shapes
from nkisim.filecheck.calls import (
    BadExamples,
    KernelCall,
    attribute_of,
    example_calls,
    generated_call,
    where_raised,
)
from nkisim.filecheck.files import named_kernel
from nkisim.filecheck.modules import CannotImport, imported
from nkisim.judging.boot import refuse
from nkisim.judging.guard import Guard, root_of
from nkisim.options import SimOptions
from nkisim.profiling import profile
from nkisim.program import ProgramError
from nkisim.program.recording import Recording


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The imported kernel, and ``target`` and ``nki`` of its runs."""

    kernel: Kernel
    options: Mapping[str, str]


_KEPT = contextlib.ExitStack()  # the file stays imported to the end of the process
_LOADED: list[_Loaded] = []


def answer(message: dict[str, Any]) -> Any:
    """Return the answer to a message of the parent."""
    return _ANSWERS[message.pop("do")](**message)


def _load(file: str, kernel: str, shapes: list[str], options: dict[str, str]) -> dict[str, Any]:
    """Import the file; return the arguments that each text, examples and annotations give.

    Args:
        file: The kernel's file.
        kernel: Name of the kernel.
        shapes: Arguments as texts; an empty one leaves all to the examples and annotations.
        options: Target and NKI version of the runs.
    """
    name, grid = named_kernel(kernel)
    sources, _ = file_findings(file, name)
    given = [parse_shapes(text) if text else {} for text in shapes]
    profile(_warm)(np.ones((128, 128), np.float32))  # loads libraries, which the guard refuses
    Guard(root_of(Path(file)), refuse).begin()
    try:
        module = _KEPT.enter_context(imported(Path(file), math.inf))
        calls: list[list[KernelCall]] = []
        for one in given:
            found = example_calls(module, Path(file), sources, name, grid, one)
            if not found and callable(attribute_of(module, name)):
                call, _ = generated_call(module, sources[0], one)
                found = [] if call is None else [call]
            calls.append(found)
    except (CannotImport, BadExamples) as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        return {"problem": str(error), "line": error.line}
    plain = attribute_of(module, name)
    first = next((call.kernel for found in calls for call in found), plain)
    if not callable(first):
        return {"problem": f"{name} is not a name of the module", "line": 1}
    chosen = as_kernel(first)
    if grid is not None:
        chosen = chosen[grid]
    cases = [[call.kernel.arguments(call.args, call.kwargs) for call in found] for found in calls]
    _LOADED.append(_Loaded(replace(chosen, bound=((), {})), options))
    return {"cases": cases}


def _warm(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


def _record(args: Any, kwargs: Any) -> dict[str, Any]:
    """Record the kernel for arrays without values.

    Returns:
        ``program``, its bytes; or why there is none: ``findings`` that refuse the call, ``raised``
        by the kernel's own code, or what no program can hold as ``unheld``.
    """
    loaded = _LOADED[0]
    run = Recording(loaded.kernel, SimOptions(**loaded.options), args, kwargs)  # type: ignore[arg-type]
    try:
        run.execute()
        data = run.program().to_bytes()
    except MemoryError:
        raise
    except ProgramError as error:
        refused = [found.to_dict() for found in run.report.findings if found.refuses]
        return {"findings": refused} if refused else {"unheld": str(error)}
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in where if f.filename == run.place.file]
        text = f"{type(error).__name__}: {error}{where_raised(error)}"
        return {"raised": text[:2000], "line": (lines or [run.place.line])[-1]}
    return {"program": np.frombuffer(data, np.uint8)}


def _advise(args: Any, kwargs: Any) -> list[dict[str, Any]]:
    """Return the advice that gains most, if any; no part of the verdict depends on it."""
    loaded = _LOADED[0]
    found = profile(loaded.kernel, **loaded.options)(*args, **kwargs)  # type: ignore[arg-type]
    tried = [piece for piece in found.advice[:1] if piece.gain_us is not None]
    return [{name: getattr(best, name) for name in _TOLD} for best in tried]


_TOLD = ("rule", "title", "action", "code", "gain_us", "change")


_ANSWERS: Mapping[str, Callable[..., Any]] = {"load": _load, "record": _record, "advise": _advise}
