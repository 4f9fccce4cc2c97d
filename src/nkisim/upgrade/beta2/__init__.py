"""The rules from Beta 2 (NKI 0.1 and 0.2) to 0.3.0."""

from nkisim.upgrade.beta2 import arguments, calls, kernels, movement, values, workarounds
