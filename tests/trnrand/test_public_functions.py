"""The contract of public functions, for trnrand: nearly all of them draw samples."""

from __future__ import annotations

from typing import ClassVar

import trnrand
from trnsci.core.testing.public import PublicContract


class TestPublicFunctions(PublicContract):
    package = trnrand
    calls: ClassVar = {
        "shuffle": (lambda x: trnrand.shuffle(x, generator=trnrand.Generator(1)), (4,)),
    }
