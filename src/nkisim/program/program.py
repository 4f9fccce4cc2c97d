"""``Program``: a kernel as data, recorded for one call's shapes and constants."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from nkisim.api import Kernel
from nkisim.files import write_text
from nkisim.program.data import ProgramData
from nkisim.program.printing import source_of
from nkisim.program.replay import kernel_of


class Program(ProgramData):
    """What a kernel asks of NKI in one call, as data that can be stored, read and replayed.

    It is recorded without values, for the shapes and dtypes of the arrays and for the other
    arguments as they are. It has no code: a replay calls functions of NKI that it names.
    """

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the program to a file; ``nkisim`` commands take it where they take a kernel."""
        write_text(file, self.to_bytes().decode())

    @classmethod
    def load(
        cls, program: bytes | str | os.PathLike[str] | Program, files: Collection[str] = ()
    ) -> Kernel:
        """Return a kernel that replays a program; ``check``, ``simulate`` and ``profile`` take it.

        Nothing in the program is executed as code, and no file that it names is read.

        Args:
            program: The program, its bytes, or the file that has them.
            files: Names of files whose positions are shown as they are. Positions in any other file
                are shown as ``<program>/NAME``, with the text that the program has of it.

        Raises:
            ProgramError: The data is no program.
        """
        if isinstance(program, (str, os.PathLike)):
            program = Path(program).read_bytes()
        if isinstance(program, bytes):
            program = cls.from_bytes(program)
        return kernel_of(program, files)

    def source(self) -> str:
        """Return the program as a straight-line kernel in NKI, to be read."""
        return source_of(self)
