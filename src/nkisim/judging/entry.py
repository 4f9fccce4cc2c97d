"""``nkisim.judge``: is a kernel legal, right and fast, by a judge that it cannot change.

The kernel is recorded as programs in a process that has no input (``author``), and the programs are
replayed in another one that never imports its file (``replaying``). The parent reads the source,
draws inputs once the programs are fixed, has the reference, compares and decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nkisim.api import as_kernel
from nkisim.arch import resolve_target
from nkisim.files import PROGRAM_SUFFIX
from nkisim.judging.child import Ended, Limits
from nkisim.judging.settings import Settings
from nkisim.judging.trial import Trial
from nkisim.judging.verdict import Verdict
from nkisim.runs.host import definition_place
from nkisim.trials.references import Reference
from nkisim.versions import chosen


def judge(
    kernel: Any, reference: Callable[..., Any], *, seconds: float = 120.0, **options: Any
) -> Callable[..., Verdict]:
    """Return a callable that judges a kernel: legal, right, fast, and what gains most.

    The kernel's file is imported in a child process with limits, on a POSIX system. Each argument
    of the callable is one case: a tuple or a dict of the kernel's arguments, or a text such as
    ``"x=bf16[128,512] eps=1e-6"``. Without any, the file's ``nkisim_examples()`` are the cases.

    Args:
        kernel: ``"FILE::KERNEL"``, or a function of a file.
        reference: A function of NumPy or torch with the kernel's parameters; its inputs are cast up
            to float64.
        seconds: Wall time after which the verdict is ``"time"``.
        **options: Fields of ``Settings``: ``target``, ``nki``, ``tolerance``, ``out_dtype``,
            ``hostile``, ``shapes``, ``nonfinite``, ``advice``, ``seed``, ``limits``.

    Raises:
        ValueError: The kernel is in no file, or the file does not have it.
    """
    limits = replace(options.pop("limits", Limits()), seconds=seconds)
    settings = Settings(limits=limits, **options)
    file, name = _place_of(kernel)

    def judged(*cases: Any) -> Verdict:
        return verdict_on(file, name, reference, settings, cases)

    return judged


def _place_of(kernel: Any) -> tuple[Path, str | None]:
    """Return the file of a kernel and its name."""
    if isinstance(kernel, str):
        file, _, name = kernel.partition("::")
        return Path(file).resolve(), name or None
    found = as_kernel(kernel)
    place = definition_place(found.function)
    name = getattr(found.function, "__qualname__", "<locals>")
    if not Path(place.file).is_file() or "<locals>" in name or found.bound != ((), {}):
        raise ValueError(
            f"kernel: {found.__name__} is no function of a file; the judge imports the file in a "
            "process of its own"
        )
    return Path(place.file).resolve(), name + (f"[{found.cores}]" if found.cores else "")


def verdict_on(
    file: Path,
    kernel: str | None,
    reference: Callable[..., Any] | Callable[[], Callable[..., Any]],
    settings: Settings,
    cases: Sequence[Any] = (),
) -> Verdict:
    """Return the verdict on a kernel of a file.

    Args:
        file: The file, or a saved program.
        kernel: Name of the kernel; None for the only one.
        reference: The reference.
        settings: The settings.
        cases: The cases, as for ``judge``.

    Raises:
        ValueError: The file has no such kernel, or several and none is named.
    """
    start = time.monotonic()
    target, nki = resolve_target(settings.target).name, chosen(settings.nki)
    seed = settings.seed or 0  # without one, it is drawn once the programs are fixed
    found = Verdict(kernel=kernel or "", file=str(file), target=target, nki=nki, seed=seed)
    trial = Trial(found, settings, Reference(reference))
    try:
        if file.suffix == PROGRAM_SUFFIX:
            trial.run_program(file, cases)
        else:
            trial.read(file, kernel)
            if not found.faults:
                trial.run(cases)
    except Ended as ended:
        trial.note_end(ended)
    trial.decide()
    found.seconds = time.monotonic() - start
    return found
