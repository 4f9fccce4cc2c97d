"""Tests to inherit for the guarantees of every public function that takes floating tensors.

A library's tests declare one small call for each of its functions and inherit the rest::

    class TestPublicFunctions(PublicContract):
        package = trnblas
        calls = {"gemm": (lambda a, b: trnblas.gemm(1.0, a, b), (2, 3), (3, 4))}

A call is a function of float64 tensors with their shapes, or with the tensors themselves. Results
are compared with finite differences, between modes of differentiation, with the compiled call, and
with the call under another default device. Exceptions are listed in ``trnsci.core.testing.exempt``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import grad, jacrev, jvp

from trnsci.core.testing import random_tensor, uninitialized_as_nan
from trnsci.core.testing.exempt import EXEMPT, reason_of

_PLAIN = {
    *("int", "float", "bool", "str", "complex", "None", "tuple", "list", "Sequence", "Literal"),
    *("Any", "dtype", "device", "torch", "collections", "abc", "typing", "Iterable", "Backend"),
    "PrecisionLevel",
}


def functions_of_tensors(package: ModuleType) -> list[str]:
    """Return the public functions of a package with an argument that may be a tensor."""
    names = []
    for name in package.__all__:
        value = getattr(package, name)
        if not callable(value) or inspect.isclass(value):
            continue
        annotations = [str(p.annotation) for p in inspect.signature(value).parameters.values()]
        texts = [re.sub(r"'[^']*'|\"[^\"]*\"", "", text) for text in annotations]
        if any(set(re.findall(r"[A-Za-z_]+", text)) - _PLAIN for text in texts):
            names.append(name)
    return names


class PublicContract:
    """Guarantees of all public functions; subclasses set ``package`` and ``calls``."""

    package: ClassVar[ModuleType]
    calls: ClassVar[Mapping[str, tuple[Any, ...]]]

    pytestmark: ClassVar[list[Any]] = [
        # torch's first use of forward mode.
        pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
        # torch's warning for its functions that vmap calls for each entry.
        pytest.mark.filterwarnings("ignore:There is a performance drop"),
    ]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Parametrize tests over the calls."""
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", self.calls)

    @pytest.fixture(autouse=True)
    def memory(self) -> Iterator[None]:
        """Give NaN to code that reads memory before it is written."""
        with uninitialized_as_nan():
            yield

    def test_every_public_function_is_called_or_exempt(self) -> None:
        """Every function is declared in one of the two places, and nothing else is."""
        library = self.package.__name__
        exempt = {key.partition(".")[2] for key in EXEMPT if key.startswith(f"{library}.")}
        whole = {key for key in exempt if ":" not in key}
        missing = set(functions_of_tensors(self.package)) - set(self.calls) - whole
        assert not missing, f"neither called nor exempt: {sorted(missing)}"
        both = whole & set(self.calls)
        assert not both, f"called, and exempt as a whole: {sorted(both)}"
        unknown = {key.partition(":")[0] for key in exempt} - set(self.package.__all__)
        assert not unknown, f"exempt, but not public: {sorted(unknown)}"

    def test_gradients_are_those_of_finite_differences_in_both_modes(self, name: str) -> None:
        """Backward and forward mode agree with finite differences."""
        function, tensors = self.prepared(name, "gradient")
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        # Random projections, in both modes: one finite difference in place of the whole Jacobian.
        assert gradcheck(function, leaves, check_forward_ad=True, fast_mode=True)

    def test_torch_func(self, name: str) -> None:
        """``grad``, ``jvp`` and ``jacrev`` agree with autograd."""
        function, tensors = self.prepared(name, "torch.func")
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        values = function(*leaves)
        weights = random_tensor(*values.shape, dtype=values.dtype, seed=5)
        want = torch.autograd.grad(values @ weights, leaves)
        places = tuple(range(len(tensors)))
        got = grad(lambda *args: function(*args) @ weights, places)(*tensors)
        torch.testing.assert_close(got, want)
        tangents = tuple(random_tensor(*t.shape, dtype=t.dtype, seed=6) for t in tensors)
        along = sum((g * t).sum() for g, t in zip(want, tangents, strict=True))
        torch.testing.assert_close(jvp(function, tensors, tangents)[1] @ weights, along)
        rows = jacrev(function, places)(*tensors)
        products = tuple(torch.tensordot(weights, row, 1) for row in rows)
        torch.testing.assert_close(products, want)

    def test_compiled_as_one_graph(self) -> None:
        """``torch.compile(fullgraph=True)`` of all calls gives the same results.

        One graph of all calls takes half the time of a graph for each.
        """
        library = self.package.__name__
        names = [name for name in self.calls if not reason_of(f"{library}.{name}", "compile")]
        if not names:
            pytest.skip("no function compiles as one graph")
        calls = [self.prepared(name, "compile") for name in names]
        functions = [function for function, _ in calls]
        operands = [tensors for _, tensors in calls]

        def every(operands: list[tuple[Tensor, ...]]) -> list[Tensor]:
            return [f(*tensors) for f, tensors in zip(functions, operands, strict=True)]

        torch.compiler.reset()
        compiled = torch.compile(every, fullgraph=True, backend="eager", dynamic=False)
        got = dict(zip(names, compiled(operands), strict=True))
        torch.testing.assert_close(got, dict(zip(names, every(operands), strict=True)))

    def test_another_default_device_changes_nothing(self, name: str) -> None:
        """Operands decide the device, in backward too."""
        function, tensors = self.prepared(name, "default device")
        want = function(*tensors)
        with torch.device("meta"):
            leaves = [tensor.clone().requires_grad_() for tensor in tensors]
            got = function(*leaves)
            if got.requires_grad:
                got.sum().backward()
        torch.testing.assert_close(got.detach(), want)

    def prepared(self, name: str, guarantee: str) -> tuple[Any, tuple[Tensor, ...]]:
        """Return a call as a function that returns one real vector, and its operands."""
        reason = reason_of(f"{self.package.__name__}.{name}", guarantee)
        if reason:
            pytest.skip(reason)
        function, *given = self.calls[name]
        tensors = tuple(
            random_tensor(*each, dtype=torch.float64, seed=place)
            if isinstance(each, tuple)
            else each
            for place, each in enumerate(given)
        )

        def vector(*args: Tensor) -> Tensor:
            found = function(*args)
            parts = found if isinstance(found, (tuple, list)) else (found,)
            return torch.cat([_real(part) for part in parts])

        return vector, tensors


def _real(part: Tensor) -> Tensor:
    if part.is_complex():
        part = torch.view_as_real(part.resolve_conj())
    return part.reshape(-1)
