"""Registrations with torch's compiler, made once it is imported."""

from nkisim.api import Kernel
from nkitorch import front_end, interop
from nkitorch.launch import launch
from nkitorch.operators import OPERATORS, WHEN_MADE, WrappedKernel

for _kind in (Kernel, WrappedKernel):
    interop.register_constant(_kind)
front_end.replace(interop.traced_through(launch))
interop.register_backend("neuron", interop.boxed)
WHEN_MADE.append(interop.register_decomposition)
for _operator in OPERATORS:
    interop.register_decomposition(*_operator)
