"""Tests to inherit for the guarantees of every operation on every backend.

A library's tests declare one small call for each of its operations and inherit the rest::

    class TestContract(DerivativeContract):
        library = LIBRARY
        samples = (
            Sample("gemm", lambda a, b: trnblas.gemm(1.0, a, b), (random_tensor(2, 3), ...)),
        )

Results and derivatives are compared with the same call on torch in float64.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, jacfwd, jacrev, jvp, vmap

from trnsci.core import explain
from trnsci.core.backend.fallback import forget_causes
from trnsci.core.backend.library import Library
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, NkiRefusalWarning
from trnsci.core.interop import fake_tensor_mode, version_of
from trnsci.core.testing import (
    BACKENDS,
    random_tensor,
    refusals_expected,
    uninitialized_as_nan,
    unit_roundoff,
)

_GRAPHS = ("test_compiled_as_one_graph", "test_exported")
_GRAPH_BACKENDS = (pytest.param("pytorch", marks=pytest.mark.slow), "simulator")
"""Graphs on torch are slow tests: ``PublicContract`` compiles every public function there."""

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class Sample:
    """A small call of an operation.

    Attributes:
        operation: Name of the ``Operation`` of the library that the call runs.
        call: Function of real tensors that makes the call; returns a tensor or a tuple of them.
        tensors: Its operands, in float32.
        growth: The allowed error, in roundings of the largest element: the length of the longest
            chain of roundings in the call and its second derivatives, times the condition number.
        backward_launches: Whether gradients run kernels.
        takes_float64: Whether the kernel accepts float64.
    """

    operation: str
    call: Callable[..., Any]
    tensors: tuple[Tensor, ...]
    growth: float = 64.0
    backward_launches: bool = True
    takes_float64: bool = False

    def __str__(self) -> str:
        return self.operation

    def vector(self, *tensors: Tensor) -> Tensor:
        """Return the differentiable results as one real vector."""
        return torch.cat([_real(part) for part in _parts(self.call(*tensors))])

    def energy(self, *tensors: Tensor) -> Tensor:
        """Return a scalar whose gradient depends on the result."""
        values = self.vector(*tensors)
        return (values * values).sum()

    @cached_property
    def wide(self) -> tuple[Tensor, ...]:
        """The operands in float64."""
        return tuple(tensor.double() for tensor in self.tensors)

    @cached_property
    def tangents(self) -> tuple[Tensor, ...]:
        """Directions to differentiate along."""
        return tuple(random_tensor(*t.shape, seed=7 + i) for i, t in enumerate(self.tensors))

    @cached_property
    def batch(self) -> tuple[Tensor, ...]:
        """Two problems, stacked in front."""
        return tuple(torch.stack([tensor, 1.25 * tensor]) for tensor in self.tensors)


class OperationContract:
    """Guarantees of all operations; subclasses set ``library`` and ``samples``."""

    library: ClassVar[Library]
    samples: ClassVar[tuple[Sample, ...]]
    pytestmark: ClassVar[list[Any]] = [
        # torch's first use of complex32, the complex dtype of float16.
        pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
    ]
    truth: ClassVar[torch.dtype] = torch.float64
    """The dtype of the torch result for comparison."""

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Parametrize tests over samples and backends."""
        if "sample" in metafunc.fixturenames:
            metafunc.parametrize("sample", self.samples, ids=str)
        if "backend" in metafunc.fixturenames:
            graphs = metafunc.function.__name__ in _GRAPHS
            metafunc.parametrize("backend", _GRAPH_BACKENDS if graphs else BACKENDS)

    @pytest.fixture(autouse=True)
    def isolated(self) -> Iterator[None]:
        """Isolate tests from other tests' graphs and from old memory."""
        torch.compiler.reset()
        with uninitialized_as_nan():
            yield
        torch.compiler.reset()

    def test_every_operation_has_a_sample(self) -> None:
        missing = set(self.library.operations) - {sample.operation for sample in self.samples}
        assert not missing, f"operations without a sample: {sorted(missing)}"

    def test_the_result_is_that_of_torch_in_float64(self, sample: Sample, backend: str) -> None:
        before = [(tensor.clone(), version_of(tensor)) for tensor in sample.tensors]
        with self.running(backend):
            got = sample.call(*sample.tensors)
        self.assert_close(sample, got, self.result_of(sample))
        for tensor, (copy, version) in zip(sample.tensors, before, strict=True):
            assert version_of(tensor) == version, "an argument was written to"
            assert torch.equal(tensor, copy)

    def test_result_dtypes_are_those_of_torch(self, sample: Sample) -> None:
        for dtype in _DTYPES:
            tensors = [tensor.to(dtype) for tensor in sample.tensors]
            found, want = (self.dtypes(sample, tensors, name) for name in ("simulator", "pytorch"))
            assert found == want, f"operands of {dtype} give {found}, not {want}"

    @pytest.mark.parametrize("lower", [True, False])
    def test_autocast_decides_the_dtype_whatever_is_differentiated(
        self, sample: Sample, lower: bool
    ) -> None:
        found = set()
        for differentiated in (True, False):
            tensors = [t.clone().requires_grad_(differentiated) for t in sample.tensors]
            for name in ("pytorch", "simulator"):
                with torch.autocast("cpu", torch.bfloat16, enabled=lower):
                    found.add(self.dtypes(sample, tensors, name))
        assert len(found) == 1, f"result dtypes differ: {found}"

    def test_fake_tensors_have_shape_and_dtype_and_run_nothing(
        self, sample: Sample, backend: str
    ) -> None:
        with self.library.backend(backend):
            real = _parts(sample.call(*sample.tensors))
            before = counts()
            with fake_tensor_mode() as mode:
                fake = _parts(sample.call(*(mode.from_tensor(t) for t in sample.tensors)))
        assert not (counts() - before).launches
        assert [(f.shape, f.dtype) for f in fake] == [(r.shape, r.dtype) for r in real]

    def test_inference_mode(self, sample: Sample, backend: str) -> None:
        with torch.inference_mode(), self.running(backend):
            got = sample.call(*sample.tensors)
        self.assert_close(sample, got, self.result_of(sample))

    def test_compiled_as_one_graph(self, backend: str) -> None:
        samples = self.of_each_operation()
        results = self.compiled(samples, [s.tensors for s in samples], backend, "eager")
        for sample, got in zip(samples, results, strict=True):
            operands = (tensor.to(self.truth) for tensor in sample.tensors)
            self.assert_close(sample, got, self.on_torch(sample.vector, *operands))

    def test_exported(self, sample: Sample, backend: str) -> None:
        class Model(torch.nn.Module):
            def forward(self, *args: Tensor) -> Any:
                return sample.call(*args)

        with self.library.backend(backend):
            program = torch.export.export(Model(), sample.tensors)
            with self.running(backend):
                got = program.module()(*sample.tensors)
        self.assert_close(sample, got, self.result_of(sample))

    def test_a_thread_in_a_copied_context_runs_on_its_backend(
        self, sample: Sample, backend: str
    ) -> None:
        with self.library.backend(backend):
            context = contextvars.copy_context()
        before = counts()
        got = _in_thread(lambda: context.run(sample.call, *sample.tensors))
        assert bool((counts() - before).launches) == (backend == "simulator")
        before = counts()
        with self.library.backend(backend):
            _in_thread(lambda: sample.call(*sample.tensors))
        assert not (counts() - before).launches, "a thread saw a block of another"
        self.assert_close(sample, got, self.result_of(sample))

    def test_float64_is_refused_counted_and_raises_where_required(self, sample: Sample) -> None:
        tensors = [tensor.double() for tensor in sample.tensors]
        if sample.takes_float64:
            with self.running("simulator"):
                self.assert_close(sample, sample.call(*tensors), self.result_of(sample))
            return
        with self.library.backend("simulator"):
            before = counts()
            with refusals_expected():
                sample.call(*tensors)
            assert (counts() - before).refusals, "torch computed, and no refusal was counted"
            refused = pytest.raises(BackendError, match=self.library.require_nki.name)
            with self.library.requiring("1"), refused:
                sample.call(*tensors)

    def test_a_refusal_is_warned_about_once_at_the_call(self, sample: Sample) -> None:
        if sample.takes_float64:
            return
        tensors = [tensor.double() for tensor in sample.tensors]

        def caught(call: Callable[..., Any]) -> list[warnings.WarningMessage]:
            forget_causes()
            with warnings.catch_warnings(record=True, action="always") as found:
                call(*tensors)
                call(*tensors)
            return [one for one in found if one.category is NkiRefusalWarning]

        for backend in ("auto", "pytorch"):
            with self.library.backend(backend):
                assert not caught(sample.call), f"a refusal with backend {backend!r}"
        with self.library.backend("simulator"):
            assert not caught(lambda *args: explain(sample.call, *args)), "explain warned"
            found = caught(sample.call)
        said = [str(one.message) for one in found]
        named = [text for text in said if text.startswith(f"{self.library.name}.")]
        assert named, f"no warning names a function of {self.library.name}: {said}"
        assert len(said) == len(set(said)), f"warned again: {said}"
        for package in {"trnsci", "torch", self.library.name} & set(sys.modules):
            folder = Path(sys.modules[package].__file__ or "").parent
            files = [Path(one.filename) for one in found]
            assert not [file for file in files if file.is_relative_to(folder)], files

    # -- helpers of the tests ---------------------------------------------------------------------

    def running(self, backend: str) -> AbstractContextManager[None]:
        """Return a block on a backend that asserts which path its calls take."""
        return _Running(self.library, backend)

    def on_torch(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the expected result: a function on torch, outside of modes under test."""
        with self.library.backend("pytorch"):
            return function(*args)

    def of_each_operation(self) -> list[Sample]:
        """Return the first sample of each operation."""
        return list({sample.operation: sample for sample in reversed(self.samples)}.values())

    def compiled(
        self, samples: list[Sample], operands: Sequence[Any], backend: str, compiler: str
    ) -> list[Tensor]:
        """Return the vectors of samples from one graph, which launches what the calls launch.

        One graph of all samples takes half the time of a graph for each.
        """

        def every(operands: Sequence[Any]) -> list[Tensor]:
            return [s.vector(*tensors) for s, tensors in zip(samples, operands, strict=True)]

        found, launches = [], []
        for function in (every, torch.compile(every, fullgraph=True, backend=compiler)):
            with self.running(backend):
                before = counts()
                found = function(operands)
                launches.append((counts() - before).launches)
        assert launches[0] == launches[1]
        return found

    def result_of(self, sample: Sample) -> Any:
        """Return the result of the sample's call on torch in ``truth``."""
        return self.on_torch(sample.call, *(tensor.to(self.truth) for tensor in sample.tensors))

    def dtypes(self, sample: Sample, tensors: list[Tensor], backend: str) -> tuple[str, ...]:
        """Return the dtypes of a result, or the exception that the call raises."""
        with self.library.backend(backend), refusals_expected():
            try:
                return tuple(str(part.dtype) for part in _parts(sample.call(*tensors)))
            except Exception as error:
                return (type(error).__name__,)

    def assert_close(self, sample: Sample, got: Any, want: Any) -> None:
        """Assert that results agree to the rounding that the sample allows."""
        for found, truth in zip(_parts(got), _parts(want), strict=True):
            assert found.shape == truth.shape, f"{sample}: shape {found.shape}, not {truth.shape}"
            error = _size(found.detach() - truth.detach())
            bound = sample.growth * unit_roundoff(torch.float32) * _size(truth)
            assert error <= bound, f"{sample} is off by {error:.3g} of {bound:.3g} allowed"


class DerivativeContract(OperationContract):
    """Guarantees of differentiable operations."""

    pytestmark: ClassVar[list[Any]] = [
        *OperationContract.pytestmark,
        # torch's first use of forward mode.
        pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
        # torch's warning for its functions that vmap calls for each entry.
        pytest.mark.filterwarnings("ignore:There is a performance drop"),
    ]

    def test_jvp(self, sample: Sample, backend: str) -> None:
        with self.running(backend):
            got = jvp(sample.vector, sample.tensors, sample.tangents)
        want = self.on_torch(jvp, sample.vector, sample.wide, _wide(sample.tangents))
        self.assert_close(sample, got, want)

    def test_forward_mode(self, sample: Sample, backend: str) -> None:
        unpack: Any = forward_ad.unpack_dual

        def tangent(tensors: Any, tangents: Any) -> Any:
            with forward_ad.dual_level():
                duals = map(forward_ad.make_dual, tensors, tangents)
                return unpack(sample.vector(*duals)).tangent

        with self.running(backend):
            got = tangent(sample.tensors, sample.tangents)
        self.assert_close(sample, got, self.on_torch(tangent, sample.wide, _wide(sample.tangents)))

    def test_jacobians(self, sample: Sample, backend: str) -> None:
        places = tuple(range(len(sample.tensors)))
        want = self.on_torch(jacrev(sample.vector, places), *sample.wide)
        for jacobian in (jacfwd, jacrev):
            with self.running(backend):
                got = jacobian(sample.vector, places)(*sample.tensors)
            self.assert_close(sample, got, want)

    def test_grad(self, sample: Sample, backend: str) -> None:
        places = tuple(range(len(sample.tensors)))
        with self.running(backend):
            got = grad(sample.energy, places)(*sample.tensors)
        self.assert_close(sample, got, self.on_torch(grad(sample.energy, places), *sample.wide))

    def test_vmap(self, sample: Sample, backend: str) -> None:
        with self.running(backend):
            got = vmap(sample.vector)(*sample.batch)
        self.assert_close(sample, got, self.each(sample, sample.vector))

    def test_vmap_of_grad(self, sample: Sample, backend: str) -> None:
        with self.running(backend):
            got = vmap(grad(sample.energy))(*sample.batch)
        self.assert_close(sample, got, self.each(sample, grad(sample.energy)))

    def test_double_backward(self, sample: Sample, backend: str) -> None:
        def second(tensors: Any) -> Any:
            leaves = [tensor.clone().requires_grad_() for tensor in tensors]
            first = torch.autograd.grad(sample.energy(*leaves), leaves, create_graph=True)
            total = torch.stack([(part * part).sum() for part in first]).sum()
            return torch.autograd.grad(total, leaves)

        with self.running(backend):
            got = second(sample.tensors)
        self.assert_close(sample, got, self.on_torch(second, sample.wide))

    def test_compiled_as_one_graph(self, backend: str) -> None:
        # One compilation for the results and their gradients: the inherited test has no gradients.
        samples = self.of_each_operation()
        leaves = [[tensor.clone().requires_grad_() for tensor in s.tensors] for s in samples]
        with self.running(backend):
            results = self.compiled(samples, leaves, backend, "aot_eager")
            total = torch.cat(results).square().sum()
            grads = iter(torch.autograd.grad(total, [leaf for each in leaves for leaf in each]))
        for sample, got in zip(samples, results, strict=True):
            self.assert_close(sample, got, self.on_torch(sample.vector, *sample.wide))
            places = tuple(range(len(sample.tensors)))
            want = self.on_torch(grad(sample.energy, places), *sample.wide)
            self.assert_close(sample, [next(grads) for _ in places], want)

    def test_backward_in_another_thread_and_after_the_block(
        self, sample: Sample, backend: str
    ) -> None:
        leaves = [tensor.clone().requires_grad_() for tensor in sample.tensors]
        with self.library.backend(backend):
            energy = sample.energy(*leaves)
        before = counts()
        got = _in_thread(lambda: torch.autograd.grad(energy, leaves))
        launches = bool((counts() - before).launches)
        assert launches == (backend == "simulator" and sample.backward_launches)
        places = tuple(range(len(leaves)))
        self.assert_close(sample, got, self.on_torch(grad(sample.energy, places), *sample.wide))

    def each(self, sample: Sample, function: Callable[..., Any]) -> Tensor:
        """Return a function of each problem of the batch, on torch in float64."""
        problems = zip(*(tensor.double() for tensor in sample.batch), strict=True)
        return torch.stack([self.on_torch(function, *problem) for problem in problems])


class ComplexContract(DerivativeContract):
    """Guarantees of operations for complex operands.

    Tensors of samples have real and imaginary parts in a last dimension of two; calls make complex
    operands of them, by ``torch.view_as_complex``.
    """

    def test_every_operation_has_a_sample(self) -> None:
        taken = {name for name, found in self.library.operations.items() if found.by_parts}
        missing = taken - {sample.operation for sample in self.samples}
        assert not missing, f"operations of complex operands without a sample: {sorted(missing)}"


class _Running:
    """A block on a backend that asserts that kernels ran, or that none did."""

    def __init__(self, library: Library, backend: str) -> None:
        self._backend = backend
        self._block: Any = library.backend(backend)

    def __enter__(self) -> None:
        self._before = counts()
        self._block.__enter__()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._block.__exit__(kind, value, trace)
        if kind is None:
            since = counts() - self._before
            assert not since.fallbacks, f"fell back to torch: {dict(since.fallbacks)}"
            assert not since.refusals, f"refused: {dict(since.refusals)}"
            assert bool(since.launches) == (self._backend == "simulator"), dict(since.launches)


def _in_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    assert found, "the thread raised"
    return found[0]


def _parts(result: Any) -> tuple[Tensor, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _real(part: Tensor) -> Tensor:
    if part.is_complex():
        part = torch.view_as_real(part.resolve_conj())
    return part.reshape(-1)


def _wide(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.double() for tensor in tensors)


def _size(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0
