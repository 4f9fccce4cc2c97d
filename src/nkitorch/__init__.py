"""Torch programs with NKI kernels on a CPU: the device "neuron", simulated by nkisim.

Importing the package registers the device with torch, for the rest of the process.
"""

import os

from nkisim.diagnostics import add_own_paths
from nkisim.frameworks import after_import
from nkitorch.device import set_up
from nkitorch.front_end import enable
from nkitorch.interop import calling_code
from nkitorch.operators import nki_op, wrap_nki

__all__ = ["nki_op", "wrap_nki"]

add_own_paths(os.path.dirname(__file__) + os.sep, *calling_code())
set_up()
enable()
after_import("torch._dynamo", "nkitorch.compiling")
