"""Operations of the form ``alpha * f(operands) + beta * C``, as BLAS has them.

An update is declared by f, by its kernel and by its derivatives. Levels of precision, autocast,
zero and tensor factors, C with its gradient and its tangent are the same for all of them and are
made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, TypeAlias

from torch import Tensor

from trnsci.core.backend.autocast import Autocast, without_autocast
from trnsci.core.backend.decision import Choice
from trnsci.core.backend.derivatives import total
from trnsci.core.backend.library import Library
from trnsci.core.backend.operation import Operation
from trnsci.core.numbers.products import Scalar, accumulated, is_number, matmul, scaled, vanished

Multiply: TypeAlias = Callable[..., Tensor]
"""``multiply(left, right)`` is a matrix product of matrices or batches that broadcast.

``multiply(left, right, triangle=True)`` need not compute the elements below the diagonal.
"""


class Update(Operation):
    """An operation ``alpha * f(operands, flags) + beta * C`` with a kernel.

    The arguments of the operation are, in this order: alpha, the operands, beta, C, the flags.
    In the functions below, ``*operands`` and ``*flags`` do not include alpha, beta and C.

    Args:
        library: The library, whose backend decides the path.
        name: Name of the operation within the library.
        product: ``product(multiply, *operands, *flags)`` returns f. ``multiply`` is ``matmul`` on
            the torch path, and the product of the level where a precision level is chosen. The
            annotations of ``product`` define operands (``Tensor``), flags (``bool``, ``str``) and
            the schema of the operator.
        shape: ``shape(*operands, *flags)`` returns the shape of f.
        launch: ``launch(launcher, alpha, *operands, beta, C, *flags)``, see ``Operation``.
        pullback: ``pullback(grad, needed, alpha, *operands, *flags)`` returns the gradients of
            ``alpha * f`` by the operands, None where ``needed`` is False.
        pushforward: ``pushforward(tangents, alpha, *operands, *flags)`` returns the tangent of
            ``alpha * f``. ``tangents`` has one entry per operand, None for an operand without
            tangent; at least one is not None. Omit ``pushforward`` if f is linear in each operand.
        multiply_at: ``multiply_at(level)`` returns the product of a level, or None for a level
            in which the kernel computes anyway.
        complex_product: The product ``multiply`` of complex operands where kernels run, for an
            update without ``by_parts``; it is an operation itself.
        host: ``host(alpha, *operands, *flags)`` returns ``alpha * f`` by a faster routine than
            torch's for tensors on a CPU, or None where that does not apply.
        with_c: Whether the operation has the arguments beta and C; if not, it is ``alpha * f``.
        batches: Whether the kernel takes batches of matrices.
        autocast: The casting rule; see ``Operation``.
        flops: ``flops(*operands, *flags)`` returns the work of a call.
        **declaration: Other arguments of ``Operation``.
    """

    def __init__(
        self,
        library: Library,
        name: str,
        *,
        product: Callable[..., Tensor],
        shape: Callable[..., tuple[int, ...]],
        launch: Callable[..., Tensor],
        pullback: Callable[..., tuple[Tensor | None, ...]],
        pushforward: Callable[..., Tensor] | None = None,
        multiply_at: Callable[[Any], Multiply | None],
        complex_product: Multiply | None = None,
        host: Callable[..., Tensor | None] | None = None,
        with_c: bool = True,
        batches: bool = False,
        autocast: Autocast = "lower",
        flops: Callable[..., float],
        **declaration: Any,
    ) -> None:
        self._product = product
        self._shape = shape
        self._pullback = pullback
        self._pushforward = pushforward
        self._multiply_at = multiply_at
        self._complex_product = complex_product
        self._host = host
        self._with_c = with_c
        self._work = flops
        parameters = list(signature(product, eval_str=True).parameters.values())[1:]
        self._operands = sum(parameter.annotation is Tensor for parameter in parameters)
        declared = [f"{parameter.annotation.__name__} {parameter.name}" for parameter in parameters]
        declared[self._operands : self._operands] = ["float beta", "Tensor? C"] if with_c else []
        declared.insert(0, "float alpha")
        super().__init__(
            library,
            name,
            reference=self._by_torch,
            launch=launch,
            fake=self._empty,
            schema=f"({', '.join(declared)}) -> Tensor",
            backward=self._gradients,
            jvp=self._tangent,
            autocast=autocast,
            flops=self._flops_of,
            unsuited=None if batches else one_matrix,
            **declaration,
        )

    def updated(
        self,
        alpha: Scalar,
        operands: tuple[Tensor, ...],
        beta: Scalar,
        C: Tensor | None,
        *flags: Any,
        level: Any = None,
        choice: Choice | None = None,
    ) -> Tensor:
        """Return ``alpha * f(operands, flags) + beta * C`` for validated arguments.

        Args:
            alpha: Factor, a number or a 0-d tensor; at a number 0 the operands are not read.
            operands: The operands of f.
            beta: Factor of C; at a number 0 it is not read.
            C: Tensor that broadcasts to the result, or None.
            *flags: The flags of f.
            level: The level of precision, which autocast does not lower; None for the arithmetic
                of the dtype.
            choice: The settings, if ``kernels_wanted`` has returned them.
        """
        if level is None:
            choice = choice or self.library.kernels_wanted()
            if choice is None or is_number(alpha, 0):
                return self._on_torch(alpha, operands, beta, C, flags)
            if self._complex_product is None or not operands[0].is_complex():
                return self._on_kernel(choice, alpha, operands, beta, C, flags)
            product = self._product(self._complex_product, *operands, *flags)
            return accumulated(scaled(alpha, product), beta, C)
        multiply = self._multiply_at(level)
        if multiply is None or is_number(alpha, 0):
            with without_autocast(operands):
                return self.updated(alpha, operands, beta, C, *flags, choice=choice)
        product = self._product(multiply, *operands, *flags)
        return accumulated(scaled(alpha, product), beta, C).to(operands[0].dtype)

    def _on_kernel(
        self,
        choice: Choice,
        alpha: Scalar,
        operands: tuple[Tensor, ...],
        beta: Scalar,
        C: Tensor | None,
        flags: tuple[Any, ...],
    ) -> Tensor:
        """Return the update by the operation, whose factors are real numbers."""
        own, of_c = _real_number(alpha), _real_number(beta)
        factor = 1.0 if own is None else own
        if not self._with_c:
            result: Tensor = self.called(choice, factor, *operands, *flags)
        elif C is None or own is None or not of_c:
            result = self.called(choice, factor, *operands, 0.0, None, *flags)
        else:
            C = C.expand(self._shape(*operands, *flags))
            return self.called(choice, factor, *operands, of_c, C, *flags)
        return accumulated(scaled(alpha, result) if own is None else result, beta, C)

    def _by_torch(self, alpha: float, *args: Any) -> Tensor:
        operands, beta, C, flags = self._parts(args)
        return self._on_torch(alpha, operands, beta, C, flags)

    def _on_torch(
        self,
        alpha: Scalar,
        operands: Sequence[Any],
        beta: Scalar,
        C: Tensor | None,
        flags: Sequence[Any],
    ) -> Tensor:
        """Return the update by torch; the factors may be tensors."""
        number = not isinstance(alpha, Tensor)
        if number and alpha == 0:
            return accumulated(vanished(self._shape(*operands, *flags), *operands), beta, C)
        product = None if self._host is None else self._host(alpha, *operands, *flags)
        if product is None:
            product = self._product(_torch_product, *operands, *flags)
            product = product if number and alpha == 1 else scaled(alpha, product)
        return product if C is None else accumulated(product, beta, C)

    def _empty(self, alpha: float, *args: Any) -> Tensor:
        operands, _, _, flags = self._parts(args)
        return operands[0].new_empty(self._shape(*operands, *flags))

    def _gradients(
        self, grad: Tensor, needed: Sequence[bool], alpha: float, *args: Any
    ) -> tuple[Tensor | None, ...]:
        operands, beta, _, flags = self._parts(args)
        count = self._operands
        found = self._pullback(grad, needed[1 : count + 1], alpha, *operands, *flags)
        of_c = (None, grad * beta if needed[count + 2] else None) if self._with_c else ()
        return (None, *found, *of_c, *(None for _ in flags))

    def _tangent(self, tangents: Sequence[Tensor | None], alpha: float, *args: Any) -> Tensor:
        operands, beta, _, flags = self._parts(args)
        count = self._operands
        of_operands = tangents[1 : count + 1]
        nothing = (0.0, None) if self._with_c else ()
        parts = []
        if self._pushforward is None:
            parts = [
                self(alpha, *operands[:place], tangent, *operands[place + 1 :], *nothing, *flags)
                for place, tangent in enumerate(of_operands)
                if tangent is not None
            ]
        elif any(tangent is not None for tangent in of_operands):
            parts = [self._pushforward(of_operands, alpha, *operands, *flags)]
        if self._with_c and (tangent := tangents[count + 2]) is not None:
            parts.append(beta * tangent)
        return total(parts)

    def _flops_of(self, alpha: float, *args: Any) -> float:
        operands, _, _, flags = self._parts(args)
        return self._work(*operands, *flags)

    def _parts(
        self, args: Sequence[Any]
    ) -> tuple[Sequence[Any], float, Tensor | None, Sequence[Any]]:
        """Return the operands, beta, C and the flags of the arguments after alpha."""
        count = self._operands
        if not self._with_c:
            return args[:count], 0.0, None, args[count:]
        return args[:count], args[count], args[count + 1], args[count + 2 :]


def _real_number(factor: Scalar) -> float | None:
    """Return a factor that is a real number; None for a tensor and a number that is not real."""
    if isinstance(factor, complex):
        return factor.real if factor.imag == 0 else None
    return None if isinstance(factor, Tensor) else factor


def one_matrix(*args: Any) -> str:
    """Return why a kernel for single matrices refuses the arguments; "" without a batch."""
    batched = any(isinstance(arg, Tensor) and arg.ndim > 2 for arg in args)
    return "the kernel takes single matrices, not batches" if batched else ""


def _torch_product(left: Tensor, right: Tensor, triangle: bool = False) -> Tensor:
    return matmul(left, right)
