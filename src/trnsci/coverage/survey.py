"""The path of every public function for each dtype and level of precision.

Each example call of a library runs on the simulator, with operands of each dtype, at each level.
The counters tell which kernels ran and which refused the operands.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import torch

from trnsci.core.backend.launch import SIMULATE
from trnsci.core.backend.precision import LEVELS, precision
from trnsci.core.counters import counts
from trnsci.core.errors import TrnsciError
from trnsci.core.examples import DTYPES, examples_of, function_of
from trnsci.validation import LIBRARIES

BASE = "float32"
"""The default level."""
UNREPORTED = "the call reports neither a kernel nor that it has none"

Outcome = Literal["kernel", "partly", "refused", "torch", "error"]


@dataclass(frozen=True)
class Cell:
    """What a call does.

    Attributes:
        outcome: ``"kernel"``: kernels compute it; ``"partly"``: kernels compute a part, and
            refused the rest; ``"refused"``: its kernels refused it, and torch computes;
            ``"torch"``: it has no kernel; ``"error"``: it raises.
        kernels: The kernels that ran, in alphabetical order.
        reasons: Why kernels refused, by operation, or the error.
    """

    outcome: Outcome
    kernels: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """What the calls of a function do at one level of precision.

    Attributes:
        library: Import name.
        function: Name within the library.
        case: What distinguishes this call from others of the function; empty for the first.
        level: Level of precision.
        cells: By the dtype of the operands, or of the result where there are none.
    """

    library: str
    function: str
    case: str
    level: str
    cells: dict[str, Cell]


def lines(
    libraries: Iterable[str] = LIBRARIES, ended: Callable[[str], None] = lambda name: None
) -> list[Line]:
    """Return a line for every example of the libraries and level of precision.

    Args:
        libraries: Import names.
        ended: Called with the name of each example after its calls.
    """
    found = []
    with on_simulator():
        for library in libraries:
            for name in examples_of(library):
                function, _, case = name.partition(", ")
                for level in sorted(LEVELS, key=lambda level: level != BASE):
                    cells = {dtype: outcome_of(library, name, dtype, level) for dtype in DTYPES}
                    found.append(Line(library, function, case, level, cells))
                ended(f"{library}.{name}")
    return found


def outcome_of(library: str, name: str, dtype: str, level: str) -> Cell:
    """Return what an example does, by running it inside ``on_simulator``."""
    before = counts()
    error = ""
    with warnings.catch_warnings(), precision(level), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            args, options = examples_of(library)[name].of(getattr(torch, dtype))
            function_of(library, name)(*args, **options)
        except TrnsciError as raised:
            error = str(raised).partition("\n")[0]
        except Exception:  # whose text differs between versions of torch
            error = "torch does not compute this dtype"
    since = counts() - before
    if error:
        return Cell("error", reasons=(error,))
    kernels = tuple(sorted(since.launches))
    reasons = tuple(sorted(f"{operation}: {why}" for operation, why in since.refusals))
    reasons += tuple(sorted(f"{operation}: the kernel failed" for operation in since.fallbacks))
    if kernels:
        return Cell("partly" if reasons else "kernel", kernels, reasons)
    if reasons:
        return Cell("refused", reasons=reasons)
    return Cell("torch", reasons=() if since.no_kernel else (UNREPORTED,))


@contextmanager
def on_simulator() -> Iterator[None]:
    """Run the kernels of all libraries on the simulator; none is required."""
    with ExitStack() as stack:
        for name in LIBRARIES:
            library: Any = import_module(name).LIBRARY
            stack.enter_context(library.requiring(""))
            stack.enter_context(library.backend("simulator"))
        stack.enter_context(SIMULATE.scope(_each_launch_once()))
        yield


def _each_launch_once() -> Callable[[Any], Callable[..., Any]]:
    """Return a simulator that keeps results: most functions launch the same at several levels."""
    from trnsci.core.nki import nki

    results: dict[tuple[str, bytes], Any] = {}

    def simulate(kernel: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            launch = kernel.__name__, pickle.dumps(args)
            if launch not in results:
                results[launch] = nki.simulate(kernel)(*args)
            return copy.deepcopy(results[launch])

        return run

    return simulate
