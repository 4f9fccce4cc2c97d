"""``nkisim profile --apply``: the changes of advice, written to the file of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nkisim.api import Kernel
from nkisim.profiling import Profile
from nkisim.profiling.text import duration
from nkisim.rewriting import SourceError, SourceText, read_source, unified_diff, write_source
from nkisim.trials import kernel_file

LEAST_GAIN = 0.02
"""Share of the time that a step must save; the steps end where none does."""


@dataclass
class ImprovedFile:
    """A file whose kernels are changed.

    Attributes:
        path: The file.
        before: Its text when it was imported, with line feeds as line endings.
        text: Its text after the steps.
        steps: The steps, in words.
    """

    path: Path
    before: str
    text: str
    steps: list[str] = field(default_factory=list)

    def diff(self) -> str:
        """Return the change as a unified diff."""
        near = self.path.is_relative_to(Path.cwd())
        path = self.path.relative_to(Path.cwd()) if near else self.path
        return unified_diff(path, self.before, self.text)

    def write(self) -> None:
        """Replace the file by its new text at once; its encoding and line endings stay.

        Raises:
            SourceError: It cannot be read or written, or has changed since it was imported.
        """
        source = read_source(self.path)
        ends = "\r\n" if "\r\n" in source.text else "\n"
        if source.text != self.before.replace("\n", ends):
            raise SourceError("has changed since it was imported, or mixes line endings")
        new = SourceText(self.text.replace("\n", ends), source.encoding, source.mark)
        write_source(self.path, new)


def improve(
    kernel: Kernel,
    predict: Callable[[Kernel], Profile | None],
    files: dict[Path, ImprovedFile],
) -> Profile | None:
    """Change the file of a kernel until no advice gains ``LEAST_GAIN``.

    Args:
        kernel: The kernel, as imported.
        predict: Returns the profile of a kernel with advice; None if it has none.
        files: The changed files, to which the kernel's is added.

    Returns:
        The last profile; None if there is none.
    """
    source = kernel_file(kernel)
    if source is None:
        return predict(kernel)
    path = Path(source.file.file)
    file = files.setdefault(path, ImprovedFile(path, source.file.text, source.file.text))
    if file.text != source.file.text:
        kernel = source.edited(file.text)
    found = predict(kernel)
    while found is not None and found.together is not None:
        whole = found.together
        gain = found.latency_us - whole.latency_us
        if gain < LEAST_GAIN * found.latency_us:
            break
        pieces = [found.advice[i] for i in whole.pieces]
        names = ", ".join(f"{piece.rule} at line {piece.line}" for piece in pieces)
        moved = f"; results change by {whole.change:.1e} of the largest" if whole.change else ""
        file.steps.append(
            f"{found.kernel}: {names}: {duration(found.latency_us)} -> "
            f"{duration(whole.latency_us)}, saves {duration(gain)}{moved}"
        )
        file.text = whole.text
        edited = kernel_file(kernel)
        assert edited is not None
        kernel = edited.edited(whole.text)
        found = predict(kernel)
    return found
