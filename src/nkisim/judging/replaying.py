"""The child that replays recorded programs; the kernel's file is never imported in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nkisim.judging.writers import Writers
from nkisim.memory import NkiTensor
from nkisim.options import SimOptions
from nkisim.profiling import ProfileError, profile
from nkisim.program import Program, ProgramError
from nkisim.program.operations import names_of
from nkisim.runs import Run
from nkisim.runs.host import NOT_RETURNED, tensors_of
from nkisim.trials.running import arrays_of


class _Replays:
    """The programs, and the last run.

    Attributes:
        kernels: The kernel of each program.
        options: ``target`` and ``nki`` of the runs.
        writers: The instructions of the last run that wrote to HBM.
        returned: The tensors that it returned.
    """

    kernels: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}
    writers = Writers()
    returned: tuple[NkiTensor, ...] = ()


def answer(message: dict[str, Any]) -> Any:
    """Return the answer to a message of the parent."""
    return _ANSWERS[message.pop("do")](**message)


def _load(programs: list[np.ndarray], files: list[str], options: dict[str, str]) -> str:
    """Read the programs; return why one of them is none, else an empty string."""
    try:
        loaded = [Program.from_bytes(program.tobytes()) for program in programs]
        kernels = [Program.load(program, files) for program in loaded]
    except ProgramError as error:
        return str(error)
    tapes = [tape for program in loaded for tape in program.tapes.values()]
    for name in (name for tape in tapes for name in names_of(tape["ops"])):
        if " " in str(name):
            return f"it calls {str(name)[:60]!r}, and is judged for NKI {options['nki']}"
    _Replays.kernels, _Replays.options = tuple(kernels), options
    return ""


def _run(program: int, args: Any, kwargs: Any, thorough: bool) -> dict[str, Any]:
    """Replay a program; return its outputs, and what was found."""
    writers = _Replays.writers = Writers()
    options = SimOptions(
        strictness="check",
        source=False,
        ignore=(),
        detect=None if thorough else (),
        watchers=(writers,),
        **_Replays.options,
    )
    before = [array.copy() for array in arrays_of((args, kwargs)) if array.dtype != object]
    run = Run(_Replays.kernels[program], options, args, kwargs)
    try:
        run.check()
    except ProgramError as error:
        return {"unheld": str(error)}
    except MemoryError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:2000]
        return {"refused": text, "stopped": text}
    report = run.report
    _Replays.returned = tuple(t for result in run.returned for t in tensors_of(result))
    after = [array for array in arrays_of((args, kwargs)) if array.dtype != object]
    changed = any(a.tobytes() != b.tobytes() for a, b in zip(before, after, strict=True))
    refused = (f"{f.rule.id}: {f.message}" for f in report.findings if f.refuses)
    return {
        "outputs": arrays_of(report.outputs) if report.outputs is not None else [],
        "findings": [found.to_dict() for found in report.findings],
        "refused": report.stopped or next(refused, ""),
        "stopped": report.stopped,
        "changed": changed and any(found.rule is NOT_RETURNED for found in report.findings),
    }


def _writer(output: int, index: list[int]) -> tuple[str, int] | None:
    """Return the line that wrote an element of an output of the last run."""
    return _Replays.writers.of(_Replays.returned[output], tuple(index))


def _profile(program: int, args: Any, kwargs: Any) -> dict[str, Any]:
    """Predict the time of a call."""

    def predicted(values: bool) -> Any:
        options = {**_Replays.options, "advice": False, "values": values}
        return profile(_Replays.kernels[program], **options)(*args, **kwargs)

    try:
        found = predicted(False)
    except ProfileError:
        found = predicted(True)
    return {name: getattr(found, name) for name in _TIMES}


_TIMES = (
    "latency_us",
    "interval_us",
    "widest",
    "fixed_us",
    "bound_by",
    "bound_us",
    "bound_share",
    "hbm_bytes",
    "spill_bytes",
    "flops",
    "engine_busy_us",
)
_ANSWERS: Mapping[str, Callable[..., Any]] = {
    "load": _load,
    "run": _run,
    "writer": _writer,
    "profile": _profile,
}
