"""Until every caller has moved: see ``trnsci.core.interop``."""

from trnsci.core.interop import constant_to_compile

__all__ = ["constant_to_compile"]
