"""Validation of one case on the simulator: result, launch, and findings on each generation.

A call is also made with operands of each dtype at each level, to find those that reach the kernel.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import torch

import nkisim
from trnsci.core.backend.launch import SIMULATE
from trnsci.core.backend.precision import LEVELS, precision
from trnsci.core.counters import counts
from trnsci.core.errors import KernelError
from trnsci.core.evidence import Case, relative_error
from trnsci.core.examples import DTYPES, with_dtype
from trnsci.core.nki import provider
from trnsci.validation.record import Record, device_stamp, fingerprint, stamp

GENERATIONS = ("gen2", "gen3", "gen4")
_ADVISED = "gen3"


class _Observer:
    """Runs kernels in place of the simulator, and records the findings and costs of one.

    Attributes:
        kernel: The recorded kernel.
        values_on: Generations to run on with values; the first one gives the results.
        advice: Whether to search for changes that make the kernel faster.
        always: Whether the kernel needs values on all generations.
        findings: Ids by generation.
        first: The first finding of each id.
        instructions, hbm_bytes: Counts of one launch.
        speed: Predicted device time by generation.
    """

    def __init__(self, kernel: str, values_on: Sequence[str], advice: bool) -> None:
        self.kernel = kernel
        self.values_on = values_on
        self.advice = advice
        self.always = False
        self.findings: dict[str, list[str]] = {}
        self.first: dict[str, nkisim.Finding] = {}
        self.instructions = 0
        self.hbm_bytes = 0
        self.speed: dict[str, dict[str, Any]] = {}

    def __call__(self, kernel: Any) -> Callable[..., Any]:
        """Return the kernel as a function of arrays."""
        if kernel.__name__ != self.kernel:
            return nkisim.simulate(kernel, target=self.values_on[0])

        def run(*arguments: Any) -> Any:
            first = self.values_on[0]
            self.instructions = self.hbm_bytes = 0
            found = self._checked(kernel, first, arguments, watchers=(self._count,))
            for generation in GENERATIONS:
                if generation == first:
                    self._predict(kernel, generation, arguments, values=self.always)
                else:
                    values = self.always or generation in self.values_on
                    self._check_and_predict(kernel, generation, arguments, values)
            if found.stopped:
                raise KernelError(f"{self.kernel} stopped on {first}: {found.stopped}")
            return found.outputs

        return run

    def _checked(self, kernel: Any, generation: str, arguments: Any, **options: Any) -> Any:
        report = nkisim.check(kernel, target=generation, **options)(*arguments)
        self._keep(generation, report.findings)
        return report

    def _keep(self, generation: str, findings: Iterable[nkisim.Finding]) -> None:
        ids = self.findings.setdefault(generation, [])
        for finding in findings:
            ids.append(finding.rule.id)
            self.first.setdefault(finding.rule.id, finding)

    def _check_and_predict(
        self, kernel: Any, generation: str, arguments: Any, values: bool
    ) -> None:
        """Check a launch and predict its time in one run, or in two where there is no time."""
        found = self._predict(kernel, generation, arguments, values=values, detect=None)
        if found is None:
            self._checked(kernel, generation, arguments, values=values)
        else:
            self._keep(generation, found.findings)

    def _predict(
        self, kernel: Any, generation: str, arguments: Any, **options: Any
    ) -> nkisim.Profile | None:
        """Record the predicted device time of a launch, or why there is none."""
        try:
            # The same changes help on all generations.
            advice = self.advice and generation == _ADVISED
            found = nkisim.profile(kernel, generation, advice=advice, **options)(*arguments)
        except nkisim.ProfileError as error:
            self.speed[generation] = {"refused": str(error).partition("\n")[0]}
            return None
        self.speed[generation] = {
            "us": round(found.latency_us, 2),
            "bound_by": found.bound_by,
            "bound_share": round(found.bound_share, 3),
            "advice": [f"{piece.rule} {piece.title}: {piece.action}" for piece in found.advice],
        }
        return found

    def _count(self, event: Any) -> None:
        self.instructions += 1
        for _, tensor in (*event.reads, *event.writes):
            if "hbm" in tensor.buffer.value:
                self.hbm_bytes += tensor.size * tensor.dtype.itemsize


def find_case(library: str, kernel: str) -> Case:
    """Return the case of a kernel.

    Raises:
        KernelError: The library declares no case for it.
    """
    cases: tuple[Case, ...] = import_module(f"{library}.evidence").CASES
    for case in cases:
        if case.kernel == kernel:
            return case
    raise KernelError(f"{library}.evidence has no case for the kernel {kernel!r}")


def run_case(
    library: str,
    kernel: str,
    *,
    values_on: Sequence[str] = GENERATIONS,
    path: Literal["simulator", "nki"] = "simulator",
    advice: bool = True,
) -> Record:
    """Run the case of a kernel through the public interface, without fallback to torch.

    Args:
        library: Import name.
        kernel: Name of the kernel's function.
        values_on: Generations to compute on; the others are checked without values.
        path: The simulator, or a NeuronCore. Only nkisim reports findings by generation and costs;
            AWS's simulator and the device give the result and the launch.
        advice: Search for changes that make the kernel faster, which takes the time of many
            predictions; without it the record has none.
    """
    watched = path == "simulator" and provider() == "nkisim"
    observer = _Observer(kernel, values_on, advice)
    error = bound = None
    launches, public, message, title, reference = 0, False, "", kernel, ""
    dtypes: dict[str, list[str]] = {}
    try:
        case = find_case(library, kernel)
        title, reference, public = case.title, case.reference, case.public
        observer.always = case.decided_by_values
        inputs = case.inputs()
        bound = float(case.bound(*inputs))
        before = counts()
        seen = SIMULATE.scope(observer) if watched else nullcontext()
        with _kernels_only(library, path), seen, torch.no_grad():
            got = case.call(*inputs)
        launches = (counts() - before).launches[kernel]
        error = relative_error(got, case.expected(*inputs))
        message = _fault(error, bound, launches, observer)
        if watched:
            dtypes = reach(library, case)
    except Exception as raised:
        place = traceback.extract_tb(raised.__traceback__)[-1]
        message = f"{type(raised).__name__}: {raised} ({place.name}, line {place.lineno})"
        message = "; ".join(filter(None, (_findings(observer), message)))
    return Record(
        library=library,
        kernel=kernel,
        title=title,
        status="failed" if message else "passed",
        reference=reference,
        error=error,
        bound=bound,
        launches=launches,
        public=public,
        generations={name: sorted(set(ids)) for name, ids in observer.findings.items()},
        instructions=observer.instructions,
        hbm_bytes=observer.hbm_bytes,
        speed=observer.speed,
        message=message,
        fingerprint=fingerprint(library),
        stamp={
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            **stamp(),
            **(device_stamp() if path == "nki" else {}),
        },
        values_on=tuple(values_on) if watched else (),
        dtypes=dtypes,
    )


def _fault(error: float, bound: float, launches: int, observer: _Observer) -> str:
    """Return the error of a finished run, or the empty string; findings explain wrong results."""
    if not launches:
        return "the public call did not launch the kernel"
    findings = _findings(observer)
    if not error <= bound:
        size = f"{error:.2g}" if isfinite(error) else "a NaN, an infinity or another shape"
        text = f"the result is off by {size}, allowed {bound:.2g}"
        return f"{findings}; {text}" if findings else text
    return findings


def _findings(observer: _Observer) -> str:
    """Return each finding once, with its line and the generations that have it."""
    texts = []
    for rule, finding in observer.first.items():
        found = [name for name in GENERATIONS if rule in observer.findings.get(name, ())]
        place = f"{Path(finding.file).name}:{finding.line}"
        texts.append(f"{finding.summary}, {place}, on {', '.join(found)}")
    return "; ".join(texts)


@contextmanager
def _kernels_only(library: str, path: str) -> Iterator[None]:
    """Run the calls of a library on kernels, and make fallbacks to torch raise."""
    chosen = import_module(library)
    with chosen.backend(path), chosen.LIBRARY.requiring("1"):
        yield


def reach(library: str, case: Case) -> dict[str, list[str]]:
    """Return the dtypes of operands that reach the kernel, by level of precision.

    The call of the case is made with operands of each dtype. No kernel runs: torch computes in its
    place. The result is empty for a case that launches its kernel itself.
    """
    if not case.public:
        return {}
    inputs = case.inputs()
    return {
        level: [dtype for dtype in DTYPES if _reached(library, case, inputs, dtype, level)]
        for level in LEVELS
    }


def _reached(library: str, case: Case, inputs: tuple[Any, ...], dtype: str, level: str) -> bool:
    reached = False

    def simulate(kernel: Any) -> Callable[..., Any]:
        nonlocal reached
        reached = reached or kernel.__name__ == case.kernel
        raise KernelError("not run: torch computes in its place")

    chosen = import_module(library)
    with (
        warnings.catch_warnings(),
        chosen.backend("simulator"),
        chosen.LIBRARY.requiring(""),
        SIMULATE.scope(simulate),
        precision(level),
        torch.no_grad(),
    ):
        warnings.simplefilter("ignore")
        try:
            case.call(*with_dtype(inputs, getattr(torch, dtype)))
        except Exception:  # operands that the function does not accept
            return reached
    return reached


def reach_text(reached: dict[str, list[str]]) -> str:
    """Return the dtypes, and the levels where they are not the same at all levels.

    Such as ``"bfloat16 float32, not at doublefloat"``.
    """
    groups: dict[str, list[str]] = {}
    for level in filter(reached.__contains__, LEVELS):  # JSON sorts them by name
        groups.setdefault(" ".join(reached[level]), []).append(level)
    nowhere = groups.pop("", [])
    if not groups:
        return "-"
    if len(groups) == 1:
        (dtypes,) = groups
        return f"{dtypes}, not at {', '.join(nowhere)}" if nowhere else dtypes
    return "; ".join(f"{dtypes} at {', '.join(levels)}" for dtypes, levels in groups.items())
