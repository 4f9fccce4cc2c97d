"""The child's side of the judge: it imports the kernel's file, runs the kernel, and answers.

It has neither the reference nor what results are compared with; what it says is data to the parent.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from nkisim.judging.guard import Guard
from nkisim.judging.integrity import Seal
from nkisim.judging.reading import LIBRARIES
from nkisim.judging.stream import Stream
from nkisim.memory import NkiTensor
from nkisim.options import SimOptions
from nkisim.profiling import Profile, ProfileError, profile
from nkisim.rewriting import SourceText, drafts
from nkisim.runs import Run
from nkisim.runs.host import tensors_of
from nkisim.spec.signatures import compile_all
from nkisim.trials.running import arrays_of


@dataclass(slots=True)
class _Loaded:
    """The imported kernel, and its recorded runs, which the child keeps between messages.

    Attributes:
        kernel: The kernel.
        options: ``target`` and ``nki`` of its runs.
        seal: The functions of nkisim and NumPy as they were before the file was imported.
        streams: Instructions of the first run for each kind of arguments.
        stream: Instructions of the last run.
        returned: The tensors that the last run returned.
    """

    kernel: Kernel
    options: dict[str, str]
    seal: Seal
    streams: dict[str, Stream] = field(default_factory=dict)
    stream: Stream = field(default_factory=Stream)
    returned: list[NkiTensor] = field(default_factory=list)


_KEPT = contextlib.ExitStack()  # the file stays imported to the end of the process
_LOADED: list[_Loaded] = []


def answer(message: dict[str, Any]) -> Any:
    """Return the answer to a message of the parent."""
    return _ANSWERS[message.pop("do")](**message)


def _load(
    file: str,
    kernel: str,
    texts: dict[str, str],
    shapes: list[str],
    examples: bool,
    options: dict[str, str],
) -> dict[str, Any]:
    """Import the file; return the arguments that ``shapes``, its examples or annotations give.

    Args:
        file: The kernel's file.
        kernel: Name of the kernel.
        texts: The texts that the import of the file runs, by their files.
        shapes: Arguments as text.
        examples: Whether to find arguments at all.
        options: Target and NKI version of the runs.
    """
    profile(_warm)(np.ones((128, 128), np.float32))  # loads libraries, which the guard refuses
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    _KEPT.enter_context(drafts({Path(name): SourceText(text) for name, text in texts.items()}))
    name, grid = named_kernel(kernel)
    sources, _ = file_findings(file, name)
    given = [parse_shapes(text) for text in shapes] or [{}]
    compile_all()  # a first call would break the seal
    seal = Seal()
    Guard(texts, refuse).begin()
    try:
        module = _KEPT.enter_context(imported(Path(file), math.inf))
        calls: list[KernelCall] = []
        for one in given if examples else ():
            found = example_calls(module, Path(file), sources, name, grid, one)
            if not found and callable(attribute_of(module, name)):
                call, _ = generated_call(module, sources[0], one)
                found = [] if call is None else [call]
            calls += found
    except (CannotImport, BadExamples) as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        return {"problem": str(error), "line": error.line, "broken": seal.broken()}
    plain = attribute_of(module, name)
    if not calls and not callable(plain):
        return {"problem": f"{name} is not a name of the module", "line": 1, "broken": ""}
    chosen = as_kernel(calls[0].kernel if calls else plain)
    if grid is not None:
        chosen = chosen[grid]
    cases = [call.kernel.arguments(call.args, call.kwargs) for call in calls]
    _LOADED.append(_Loaded(Kernel(chosen.function, chosen.cores), options, seal))
    return {"cases": cases, "broken": seal.broken()}


def _run(args: Any, kwargs: Any, thorough: bool) -> dict[str, Any]:
    """Run the kernel; return its outputs, and what was found."""
    loaded = _LOADED[0]
    stream = loaded.stream = Stream()
    options = SimOptions(
        strictness="check",
        source=False,
        ignore=(),
        detect=None if thorough else (),
        watchers=(stream,),
        **loaded.options,  # type: ignore[arg-type]
    )
    before = [array.copy() for array in arrays_of((args, kwargs)) if array.dtype != object]
    run = Run(loaded.kernel, options, args, kwargs)
    raised: dict[str, Any] = {}
    try:
        run.check()
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in where if f.filename == run.place.file]
        text = f"{type(error).__name__}: {error}{where_raised(error)}"
        raised = {"text": text[:2000], "line": (lines or [run.place.line])[-1]}
    report = run.report
    loaded.returned = [t for result in run.returned for t in tensors_of(result)]
    first = loaded.streams.setdefault(repr(report.arguments), stream)
    ended = not report.stopped
    differs = first.difference(stream) if ended else None
    after = [array for array in arrays_of((args, kwargs)) if array.dtype != object]
    changed = any(a.tobytes() != b.tobytes() for a, b in zip(before, after, strict=True))
    refused = (f"{f.rule.id}: {f.message}" for f in report.findings if f.refuses)
    given_back = any(t.origin.is_argument for t in loaded.returned)
    return {
        "outputs": arrays_of(report.outputs) if report.outputs is not None else [],
        "findings": [found.to_dict() for found in report.findings],
        "refused": raised.get("text") or report.stopped or next(refused, ""),
        "stopped": report.stopped,
        "raised": raised,
        "differs": differs,
        "changed": changed and not given_back,
        "instructions": report.instructions,
        "broken": loaded.seal.broken(),
    }


def _writer(output: int, index: list[int]) -> tuple[str, int] | None:
    """Return the line that wrote an element of an output of the last run."""
    loaded = _LOADED[0]
    return loaded.stream.writer(loaded.returned[output], tuple(index))


def _profile(args: Any, kwargs: Any, advice: bool) -> dict[str, Any]:
    """Predict the time of a call, and compare its instructions with those of the first run."""
    loaded = _LOADED[0]

    def predicted(advice: bool, *watchers: Stream) -> Profile:
        options: dict[str, Any] = {**loaded.options, "advice": advice, "watchers": watchers}
        try:
            return profile(loaded.kernel, **options)(*args, **kwargs)
        except ProfileError:
            for watcher in watchers:
                watcher.clear()
            return profile(loaded.kernel, values=True, **options)(*args, **kwargs)

    stream = Stream()
    found = predicted(False, stream)
    first = loaded.streams[repr(found.arguments)]
    tried = predicted(True).advice if advice else []
    pieces = [piece._asdict() for piece in tried if piece.code or piece is tried[0]]
    for piece in pieces:
        del piece["values"]
    return {
        "times": {name: getattr(found, name) for name in _TIMES},
        "advice": pieces,
        "differs": first.difference(stream),
        "broken": loaded.seal.broken(),
    }


_TIMES = (
    "latency_us",
    "interval_us",
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


def _warm(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
