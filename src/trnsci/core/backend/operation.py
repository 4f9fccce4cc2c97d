"""Operations with a torch reference and an NKI kernel, and the choice between the two.

The choice is made here for every operation of every library. On the torch path the reference is
called and nothing else happens. On a kernel path the call goes through a torch operator
``torch.ops.<library>.<name>``, with rules for autograd, torch.func, FakeTensor, torch.compile,
torch.export and vmap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from threading import Lock
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci.core.backend.autocast import Autocast, autocast_device, cast_arguments
from trnsci.core.backend.decision import NO_DEVICE, Choice, Decision, Path
from trnsci.core.backend.derivatives import each_entry, make_node, multilinear_jvp
from trnsci.core.backend.explanation import Step, note
from trnsci.core.backend.fallback import report_fallback, report_refusal
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.library import Library, device_ready
from trnsci.core.backend.prediction import predictor
from trnsci.core.errors import BackendError, KernelError
from trnsci.core.examples import Case, Example
from trnsci.core.interop import constant_to_compile, with_conjugate_views
from trnsci.core.numbers.conversions import real_dtype

_PATH: ContextVar[Path | None] = ContextVar("trnsci.path", default=None)
"""The path of the call that is in progress; None for operators in graphs of torch.compile."""


class Operation:
    """An operation with a torch reference and a kernel.

    Args:
        library: The library, whose backend decides the path.
        name: Name of the operation within the library.
        reference: Torch function of the operation's arguments, differentiable and out of place,
            that returns a tensor or a tuple of them.
        launch: A function, or ``"module:function"`` to be imported at the first kernel call. It
            receives a ``Launcher`` and the operation's arguments, calls ``launcher(kernel, *args)``
            at least once, and returns results of the reference's shapes and dtypes.
        fake: Function of the arguments that returns tensors of the result's shape and dtype
            without computing; None runs the reference on tensors without values.
        schema: Schema of the torch operator, such as ``"(Tensor x, float scale) -> Tensor"``. None
            takes that of the annotations of ``fake``, or of ``reference``: ``Tensor``, ``Tensor |
            None``, ``float``, ``int``, ``bool``, ``str``; ``tuple[Tensor, Tensor]`` for two
            results.
        backward: ``backward(grad, needed, *args)`` returns one gradient for each argument, None
            where ``needed`` (one bool for each argument) is False; with several results ``grad`` is
            a tuple, None for a result that is not differentiated. None differentiates the
            reference.
        jvp: ``jvp(tangents, *args)`` returns the tangent of each result for those of the
            arguments, of which some are None; None differentiates the reference.
        linear: Positions of arguments in each of which the operation is linear; its tangent is then
            the sum of its results with one of them replaced by its tangent, and ``jvp`` is not
            given.
        from_result: Whether ``backward`` and ``jvp`` also take the result, as the keyword
            ``result``; derivatives of solutions use it.
        batched: ``batched(info, in_dims, *args)`` is the rule for ``torch.vmap``, as in
            ``torch.library.register_vmap``; None computes the entries one by one.
        autocast: The casting rule of automatic mixed precision (see ``Autocast``): ``"lower"`` for
            products, which run in the autocast dtype, ``"float32"`` for operations that torch runs
            in float32 under autocast, ``"keep"`` for no cast.
        dtypes: Names of the dtypes that the kernel accepts; a call with a tensor of any other is
            refused and runs on torch.
        by_parts: ``by_parts(real, *args)`` returns the results for complex operands, where
            ``real`` is the launch for real ones: it calls ``real`` with real operands made of
            theirs, once if possible; see ``numbers.planes``. Complex dtypes whose parts are of
            ``dtypes`` are accepted then. ``unsuited`` and ``flops`` get the complex operands; work
            counts four times.
        holomorphic: Whether the operation has a complex derivative by each operand; then
            ``backward`` is written for real operands, and conjugations are made here. Without one,
            such as for Hermitian matrices, ``backward`` is that of complex operands.
        doublefloat: Whether the kernel computes at precision ``doublefloat``; where the
            library widens (see ``Library``) kernels of other operations refuse that level.
        flops: Function of the arguments that returns the work of a call.
        min_flops: Work below which backend ``"auto"`` runs on torch even where a NeuronCore is
            present, since a launch would take longer.
        unsuited: Function of the arguments that returns the reason why the kernel does not accept
            them, or the empty string.
        examples: For each public function that runs the operation, a function that returns a small
            legal call; see ``trnsci.core.examples``.
        evidence: Validation cases of its kernels; see ``trnsci.core.evidence``.
    """

    def __init__(
        self,
        library: Library,
        name: str,
        *,
        reference: Callable[..., Any],
        launch: str | Callable[..., Any],
        fake: Callable[..., Any] | None = None,
        schema: str | None = None,
        backward: Callable[..., tuple[Tensor | None, ...]] | None = None,
        jvp: Callable[..., Any] | None = None,
        linear: tuple[int, ...] = (),
        from_result: bool = False,
        batched: Callable[..., tuple[Any, Any]] | None = None,
        autocast: Autocast = "keep",
        dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16"),
        by_parts: Callable[..., Any] | None = None,
        holomorphic: bool = True,
        doublefloat: bool = False,
        flops: Callable[..., float] | None = None,
        min_flops: float = 2e9,
        unsuited: Callable[..., str] | None = None,
        examples: Mapping[str, Callable[[], Example]] = MappingProxyType({}),
        evidence: tuple[Case, ...] = (),
    ) -> None:
        self.library = library
        self.name = name
        self.qualified_name = f"{library.name}.{name}"
        self.reference = reference
        self.autocast = autocast
        real = (getattr(torch, dtype) for dtype in dtypes)
        complex_ = (_COMPLEX[name] for name in dtypes if by_parts is not None and name in _COMPLEX)
        self.dtypes = frozenset((*real, *complex_))
        self.by_parts = by_parts
        self.doublefloat = doublefloat
        self.min_flops = min_flops
        self.examples = examples
        self.evidence = evidence
        self.launch = launch
        self._fake = fake or reference
        self._schema = schema
        self._backward = _conjugated(backward) if by_parts and holomorphic else backward
        self._jvp = multilinear_jvp(self, linear) if linear else jvp
        self._from_result = from_result
        self._batched = batched or self._each
        self._flops = flops
        self._unsuited = unsuited
        # Formatted here: torch.compile cannot format a dynamic number.
        self._too_small = f"a launch is worth at least {min_flops:.3g} flops"
        self._operator: Any = None
        self._node: Any = None
        self._home: Any = None
        self._lock = Lock()
        library.operations[name] = self

    def __repr__(self) -> str:
        return f"<operation {self.qualified_name}>"

    def __call__(self, *args: Any) -> Any:
        """Return the result, computed on the path of the backend and the arguments."""
        choice = self.library.kernels_wanted()
        return self.reference(*args) if choice is None else self.called(choice, *args)

    def called(self, choice: Choice, *args: Any) -> Any:
        """Return the result of a call for which ``kernels_wanted`` returned these settings."""
        device = autocast_device(args)
        if device is None:
            return self._obeyed(choice, args)
        args = cast_arguments(self.autocast, device, args)
        with torch.autocast(device, enabled=False):
            return self._obeyed(choice, args)

    def decide(self, choice: Choice, args: tuple[Any, ...], refusal: str = "") -> Decision:
        """Return the decision on a call, or on one that is refused before its arguments exist."""
        path, reason = choice.path, choice.reason
        if path == "pytorch":
            return Decision(path, reason)
        if choice.by_operands and not any(map(_on_neuron, args)):
            return Decision("pytorch", NO_DEVICE)
        if any(isinstance(arg, Tensor) and arg.numel() == 0 for arg in args):
            return Decision("pytorch", "an operand is empty")
        end = "; the call raises" if choice.required else ""
        refusal = refusal or self._refusal(choice.widening, args)
        if refusal:
            return Decision("pytorch", f"{refusal}{end}", refusal)
        if path == "nki":
            if choice.backend == "auto" and not choice.required and self._is_small(args):
                return Decision("pytorch", self._too_small)
            if not device_ready():
                reason = f"{reason}, but no NeuronCore with AWS's NKI is found{end}"
        return Decision(path, reason)

    def _is_small(self, args: tuple[Any, ...]) -> bool:
        return self._flops is not None and _real_work(args) * self._flops(*args) < self.min_flops

    def refusal(self, *args: Any) -> str:
        """Return the reason why the kernel does not accept the arguments, or the empty string."""
        return self._refusal(self.library.widening(), args)

    def _refusal(self, widening: bool, args: tuple[Any, ...]) -> str:
        if widening and not self.doublefloat:
            return "the kernel does not have precision 'doublefloat'"
        for arg in args:
            if isinstance(arg, Tensor) and arg.dtype not in self.dtypes:
                return f"the kernel does not take {arg.dtype}"
        return "" if self._unsuited is None else self._unsuited(*args)

    def refuse(self, reason: str) -> None:
        """Report that torch will compute a call for which a kernel was requested.

        For callers that decide this before they have the arguments of the operation. The refusal
        is counted, shown by ``explain``, raises where kernels are required, and is warned about if
        the backend was requested by name. On the torch path nothing is refused.

        Raises:
            BackendError: Kernels are required.
        """
        choice = self.library.kernels_wanted()
        if choice is not None:
            decision = self.decide(choice, (), reason)
            if choice.recorded:
                note(Step(self.qualified_name, decision.path, decision.reason))
            elif decision.refusal:
                self._report(decision, choice)

    def shape_of_result(self, *args: Any) -> Any:
        """Return dense empty tensors like the result; computes nothing for fake tensors."""
        return _each_of(self._fake(*args), _empty_like)

    def register(self) -> bool:
        """Create the torch operator, if it does not exist yet; return True.

        torch.compile treats the result as a constant, and so runs this while tracing.
        """
        with self._lock:
            if self._operator is None:
                self._operator = self._registered()
        return True

    def _obeyed(self, choice: Choice, args: tuple[Any, ...]) -> Any:
        """Decide on a call and return its result; for ``explain``, record the decision."""
        decision = self.decide(choice, args)
        path = decision.path
        if choice.recorded:
            runs = path == "simulator" or (path == "nki" and device_ready())
            predict = predictor(self._run_kernel, args) if runs else None
            note(Step(self.qualified_name, path, decision.reason, predict))
            return self.shape_of_result(*args)
        if decision.refusal:
            self._report(decision, choice)
        if path == "pytorch":
            return (self._in_float64 if choice.widening else self.reference)(*args)
        self.register()
        if is_compiling():
            return self._operator(*args)
        token = _PATH.set(path)
        try:
            return self._node(*args)
        finally:
            _PATH.reset(token)

    def _in_float64(self, *args: Any) -> Any:
        """Return the reference of the arguments in float64, rounded to their dtype."""
        tensors = [arg for arg in args if isinstance(arg, Tensor) and _inexact(arg)]
        if not tensors:
            return self.reference(*args)
        dtype = real_dtype(tensors[0].dtype)
        wide = [_in_dtype(arg, torch.float64) if isinstance(arg, Tensor) else arg for arg in args]
        return _each_of(self.reference(*wide), lambda result: _in_dtype(result, dtype))

    def _report(self, decision: Decision, choice: Choice) -> None:
        """Count and warn of a refusal, or raise it where kernels are required."""
        if choice.required:
            raise BackendError(
                f"{self.qualified_name}: {decision.refusal}, and {self.library.require_nki.name} "
                f"or its umbrella is on"
            )
        self._report_once(decision.refusal, choice.backend != "auto")

    def _report_once(self, refusal: str, named: bool) -> bool:
        """Report a refusal; a compiled call does so once, when it is compiled."""
        report_refusal(self.qualified_name, refusal, self.library.require_nki.name, named)
        return True

    def _registered(self) -> Any:
        name, space = self.name, self.library.name
        # Registrations last as long as this object.
        home = self._home = cast(Any, torch.library.Library)(space, "FRAGMENT")
        schema = self._schema or torch.library.infer_schema(self._fake, mutates_args=())
        home.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        operator = getattr(getattr(torch.ops, space), name).default
        self._node, dispatched = make_node(
            f"{space}_{name}",
            operator,
            self.reference,
            self._backward,
            self._jvp,
            self._batched,
            self._from_result,
        )
        home.impl(name, self._run, "CompositeExplicitAutograd")
        home.impl(name, dispatched, "Autograd")
        torch.library.register_fake(f"{space}::{name}", self.shape_of_result, lib=home)
        torch.library.register_vmap(f"{space}::{name}", self._batched, lib=home)
        return operator

    def _run(self, *args: Any) -> Any:
        """Compute the result with the kernel; if that fails, with torch."""
        conjugate, negative = with_conjugate_views()
        with conjugate, negative:
            path = _PATH.get() or self._path(args)
            if path != "pytorch":  # else the backend was changed after the call was compiled
                try:
                    return _each_of(self._run_kernel(Launcher(path), *args), _dense)
                except Exception as error:
                    if self.library.required():
                        raise
                    report_fallback(self.qualified_name, error, self.library.require_nki.name)
            return _each_of(self.reference(*args), lambda result: _own(result, args))

    def _path(self, args: tuple[Any, ...]) -> Path:
        """Return the path that the current settings give a compiled call."""
        choice = self.library.choice()
        return choice.path if any(map(_on_neuron, args)) else self.library.path()

    def _run_kernel(self, launcher: Launcher, *args: Any) -> Any:
        if launcher.path == "nki" and not self.library.has_nki:
            raise self.library.no_nki(self.name)
        launch = self.launch
        if isinstance(launch, str):
            module, _, function = launch.partition(":")
            launch = getattr(import_module(module), function)
        result: object
        if self.by_parts is not None and any(map(_is_complex, args)):
            result = self.by_parts(partial(launch, launcher), *args)
        else:
            result = launch(launcher, *args)
        if not launcher.launches:
            raise KernelError(f"{self.qualified_name}: {self.launch!r} launched no kernel")
        for part in result if isinstance(result, tuple) else (result,):
            if not isinstance(part, Tensor):
                raise KernelError(
                    f"{self.qualified_name}: {self.launch!r} returned a {type(part).__name__}, "
                    f"not a tensor"
                )
        return result

    def _each(self, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        return each_entry(self, info.batch_size, in_dims, args)


constant_to_compile(Operation.register)
constant_to_compile(Operation._report_once)


_COMPLEX = {"float32": torch.complex64, "float64": torch.complex128}
"""The complex dtype with parts of a dtype."""


def _is_complex(arg: Any) -> bool:
    return isinstance(arg, Tensor) and arg.is_complex()


def _real_work(args: tuple[Any, ...]) -> int:
    """Return the real products in one of the numbers of the arguments."""
    return 4 if any(map(_is_complex, args)) else 1


def _conjugated(
    backward: Callable[..., tuple[Tensor | None, ...]] | None,
) -> Callable[..., tuple[Tensor | None, ...]] | None:
    """Return a rule for complex operands from one for real operands of a holomorphic operation.

    A gradient is the conjugate derivative, so the rule is conjugated: its result for a conjugated
    gradient of the result. An operand that is real gets the real part.
    """
    if backward is None:
        return None

    def rule(grad: Any, needed: Any, *args: Any, **result: Any) -> tuple[Tensor | None, ...]:
        if not any(map(_is_complex, args)):
            return backward(grad, needed, *args, **result)
        found = backward(_conj(grad), needed, *args, **result)
        return tuple(
            g if g is None else g.conj_physical() if _is_complex(arg) else g.real
            for g, arg in zip(found, args, strict=True)
        )

    return rule


def _conj(grad: Any) -> Any:
    if isinstance(grad, tuple):
        return tuple(map(_conj, grad))
    return None if grad is None else grad.conj()


def _on_neuron(arg: Any) -> bool:
    return isinstance(arg, Tensor) and arg.device.type == "neuron"


def _each_of(result: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return one result, or each of a tuple of them, with ``function`` applied."""
    return tuple(map(function, result)) if isinstance(result, tuple) else function(result)


def _inexact(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _in_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return floating-point and complex numbers with parts of ``dtype``, others unchanged."""
    if not _inexact(x):
        return x
    return x.to(dtype.to_complex() if x.is_complex() else dtype)


def _empty_like(result: Tensor) -> Tensor:
    return torch.empty_like(result, memory_format=torch.contiguous_format)


def _dense(result: Tensor) -> Tensor:
    """Return values as they are, in memory of their own size, which forward mode compares."""
    dense = result.resolve_conj().resolve_neg().contiguous()
    if dense.untyped_storage().nbytes() == dense.numel() * dense.itemsize:
        return dense
    return dense.clone(memory_format=torch.contiguous_format)


def _own(result: Tensor, args: tuple[Any, ...]) -> Tensor:
    """Return ``result`` dense and not aliasing an argument, as custom operators require."""
    dense = _dense(result)
    memory = dense.untyped_storage().data_ptr()
    shared = any(isinstance(a, Tensor) and a.untyped_storage().data_ptr() == memory for a in args)
    return dense.clone() if shared else dense
