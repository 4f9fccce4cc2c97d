"""``nkisim.outline``: results of a kernel as shapes and dtypes, and the arguments that it writes.

The kernel's code runs once, without values. Front ends need this before there are values: fake
tensors, compiled graphs, predictions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from nkisim.api import as_kernel
from nkisim.dtypes import DType
from nkisim.machine import Core
from nkisim.memory import NkiTensor
from nkisim.objects import rebuilt
from nkisim.options import SimOptions
from nkisim.runs import Run
from nkisim.runs.host import HostBoundary, argument_names, tensors_of
from nkisim.runs.signatures import key_of, without_values


class ArraySpec(SimpleNamespace):
    """One array of a call; not a tuple, so that it is one leaf of a tree of results.

    Attributes:
        shape, dtype: Its shape, and its dtype under the name that NKI has for it.
        argument: The argument that a result is, such as ``"x"`` or ``"pair[0]"``; empty for a new
            array and for a part of an argument, which the caller receives as a copy.
    """

    shape: tuple[int, ...]
    dtype: DType
    argument: str


@dataclasses.dataclass(frozen=True, slots=True)
class Outline:
    """The effect of one call of a kernel, without values.

    Attributes:
        results: The kernel's return value, with an ``ArraySpec`` in place of every array.
        written: The arguments that the kernel writes, in the order of the call.
        not_returned: Those of them that it does not return.
    """

    results: Any
    written: tuple[str, ...]
    not_returned: tuple[str, ...]


def outline(kernel: Any, **options: Any) -> Callable[..., Outline]:
    """Return a callable that derives the results of ``kernel`` from shapes and dtypes.

    The kernel runs once, without values, for each combination of target, version, shapes, dtypes
    and constants; further calls return the same outline. A loop whose number of iterations is a
    value in memory runs once.

    Args:
        kernel: A function, with or without ``@jit``, ``kernel[lnc]``, or a ``functools.partial``.
        **options: Fields of ``SimOptions``, such as ``target``; ``values`` has no effect.

    Raises:
        NkiValidationError: When called: the call itself would raise it for these shapes and dtypes.
            Errors of the kernel's own Python code raise too.

    Example:
        >>> import numpy as np, nkisim, nkisim.language as nl
        >>> def double(x):
        ...     out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
        ...     return out
        >>> found = nkisim.outline(double)(np.empty((4, 4), np.float32))
        >>> found.results.shape, str(found.results.dtype), found.written
        ((4, 4), 'float32', ())
    """
    chosen = SimOptions(**{"trip_count": 1, **options, "values": False})
    found = as_kernel(kernel)

    def outlined(*args: Any, **kwargs: Any) -> Outline:
        args, kwargs = found.arguments(args, kwargs)
        names = argument_names(found.parameters, len(args))
        try:
            known = _KNOWN.setdefault(found.function, {})
            key: Any = (
                *(key_of(args), key_of(kwargs), found.cores, found.schedule, chosen),
                *(chosen.generation().name, chosen.version(), chosen.level()),
                *(chosen.logical_cores(), chosen.precise()),
            )
            result = known.get(key)
        except TypeError:  # the function or an argument cannot be a key
            known, key, result = {}, None, None
        if result is None:
            whole = dataclasses.replace(found, bound=((), {}))
            specs = [rebuilt(v, without_values, name) for name, v in zip(names, args, strict=True)]
            named = {name: rebuilt(value, without_values, name) for name, value in kwargs.items()}
            run = _OutlineRun(whole, chosen, tuple(specs), named)
            run.execute()
            if len(known) >= _MOST_OUTLINES:
                known.clear()
            result = known[key] = run.outline()
        return result

    return outlined


class _OutlineRun(Run):
    """A run without values that notes what its first rank returned."""

    _ended: tuple[HostBoundary, Any] | None = None

    def _finished(self, cores: list[Core], host: HostBoundary, result: Any) -> Any:
        self._ended = self._ended or (host, result)
        return super()._finished(cores, host, result)

    def outline(self) -> Outline:
        """Return the outline of the finished run."""
        assert self._ended is not None
        host, result = self._ended
        names = {tensor.life: name for name, tensor in host.arguments}
        returned = {tensor.life for tensor in tensors_of(result) if tensor.whole}
        written = [(n, t.life in returned) for n, t in host.arguments if t.life.first_use >= 0]

        def described(_: str, part: Any) -> Any:
            if not isinstance(part, NkiTensor):
                return part
            argument = names.get(part.life, "") if part.whole else ""
            return ArraySpec(shape=part.shape, dtype=part.dtype, argument=argument)

        return Outline(
            rebuilt(result, described),
            tuple(name for name, _ in written),
            tuple(name for name, is_returned in written if not is_returned),
        )


_KNOWN: WeakKeyDictionary[Callable[..., Any], dict[Any, Outline]] = WeakKeyDictionary()
"""Outlines by function and call; they live as long as the function."""

_MOST_OUTLINES = 1024  # of a function, against growth without bound under ever new shapes
