"""The tools of ``nkisim serve --mcp``: commands, called by programs."""

from __future__ import annotations

import os
from typing import Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

import nkisim
from nkisim.files import source_file
from nkisim.serve.requests import CRASHED, OUT_OF_TIME, SECONDS, Server

_USAGE = 2

_ABOUT = """\
nkisim runs, checks and profiles AWS NKI kernels on a CPU. A kernel is in a file, by its absolute
path, or in a text (source). Call check until it has no findings; judge compares it with a
reference, profile and tune predict its time. find gives the legal call for an operation.
"""


def serve_stdio(server: Server) -> None:
    """Answer on stdin and stdout until stdin ends."""
    tools(server).run("stdio")


def tools(server: Server) -> MCPServer:
    """Return the tools, whose calls run in children of a warm process."""
    offered = MCPServer("nkisim", instructions=_ABOUT, version=nkisim.__version__)

    async def run(*arguments: str, **options: str | bool) -> str:
        """Run a command; options that are empty or False are left out."""
        line = list(arguments)
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            line += [flag] if value is True else [flag, value] if value else []
        reply = await server.answer(line)
        if reply.status in (_USAGE, CRASHED, OUT_OF_TIME):
            raise ToolError(reply.errors.strip())
        return reply.output or reply.errors

    def file_of(path: str, kernel: str) -> str:
        if not os.path.isabs(path):
            raise ToolError(f"path: got {path!r}, accepted: an absolute path")
        return f"{path}::{kernel}" if kernel else path

    async def run_on(
        command: str, path: str, source: str, kernel: str, *arguments: str, **options: str | bool
    ) -> str:
        """Run a command on a file, or on a text; reports call the file of a text ``-``."""
        if bool(path) == bool(source):
            raise ToolError("give one of path and source")
        if path:
            return await run(command, file_of(path, kernel), *arguments, **options)
        with source_file(source) as file:
            reply = await run(command, file_of(str(file), kernel), *arguments, **options)
            return reply.replace(str(file), "-")

    limit = str(SECONDS - 1)

    @offered.tool()
    async def check(
        path: str = "",
        source: str = "",
        kernel: str = "",
        shapes: str = "",
        target: str = "",
        nki: str = "",
        source_only: bool = False,
    ) -> str:
        """Check the kernels of a Python file; return the findings as JSON.

        Args:
            path: Absolute path of the file.
            source: Text of the file, in place of a path.
            kernel: Name of one kernel; empty for all.
            shapes: Arguments, such as "x=bf16[128,512] eps=1e-6", unless the file has
                nkisim_examples() or annotations.
            target: trn1, trn2, trn3, or all, which is the default.
            nki: NKI version to judge by, such as 0.6.
            source_only: Read the file; import and run nothing.
        """
        return await run_on(
            *("check", path, source, kernel, "--format", "json", "--max-seconds", limit),
            shapes=shapes,
            target=target,
            nki=nki,
            source_only=source_only,
        )

    @offered.tool()
    async def fix(
        path: str = "", source: str = "", kernel: str = "", shapes: str = "", write: bool = False
    ) -> str:
        """Fix what the findings of a file have tried code for; return a diff, or what remains.

        Args:
            path: Absolute path of the file.
            source: Text of the file, in place of a path.
            kernel: Name of one kernel; empty for all.
            shapes: Arguments, as for check.
            write: Write the fixes to the file of ``path`` and return the remaining findings as
                JSON; else return a diff.
        """
        if source and write:
            raise ToolError("write: it needs a path; without it the fixes of source are a diff")
        how = ("--fix", "--format", "json") if write else ("--diff",)
        return await run_on(
            *("check", path, source, kernel, *how, "--max-seconds", limit), shapes=shapes
        )

    @offered.tool()
    async def profile(
        path: str = "",
        source: str = "",
        kernel: str = "",
        shapes: str = "",
        target: str = "",
        nki: str = "",
    ) -> str:
        """Predict the device time of the kernels of a file, with tried advice; return JSON.

        Args:
            path: Absolute path of the file.
            source: Text of the file, in place of a path.
            kernel: Name of one kernel; empty for all.
            shapes: Arguments, as for check.
            target: trn1, trn2, trn3, or all; trn2 by default.
            nki: NKI version to judge by.
        """
        return await run_on(
            *("profile", path, source, kernel, "--format", "json", "--max-seconds", limit),
            shapes=shapes,
            target=target,
            nki=nki,
        )

    @offered.tool()
    async def judge(
        reference: str,
        path: str = "",
        source: str = "",
        kernel: str = "",
        shapes: str = "",
        target: str = "",
    ) -> str:
        """Judge a kernel: is it legal, right and fast, and what gains most; return JSON.

        Args:
            reference: What the kernel must compute, as FILE::FUNCTION with an absolute path: a
                function of NumPy or torch in another file.
            path: Absolute path of the kernel's file.
            source: Text of the kernel's file, in place of a path.
            kernel: Name of the kernel, if the file has several.
            shapes: Arguments, as for check.
            target: trn1, trn2 or trn3; trn2 by default.
        """
        return await run_on(
            *("judge", path, source, kernel, "--format", "json", "--max-seconds", limit),
            reference=file_of(reference, ""),
            shapes=shapes,
            target=target,
        )

    @offered.tool()
    async def tune(
        kernel: str,
        space: str,
        reference: str = "",
        path: str = "",
        source: str = "",
        shapes: str = "",
        target: str = "",
    ) -> str:
        """Rank the right variants of a kernel by predicted device time; return JSON.

        Args:
            kernel: Name of the kernel.
            space: Values by parameter, such as "TILES_M=1,2,4 ORDER='mn','nm'".
            reference: What all variants must compute, as for judge; by default, what the kernel
                computes with its defaults.
            path: Absolute path of the file.
            source: Text of the file, in place of a path.
            shapes: The other arguments, as for check.
            target: trn1, trn2 or trn3; trn2 by default.
        """
        return await run_on(
            *("tune", path, source, kernel, "--format", "json", "--max-seconds", limit),
            space=space,
            reference=reference and file_of(reference, ""),
            shapes=shapes,
            target=target,
        )

    @offered.tool()
    async def rule(name: str) -> str:
        """Return the page of a rule: what is checked, why it matters, wrong and right code.

        Args:
            name: Id or name, such as M004.
        """
        return await run("rule", "--plain", "--", name)

    @offered.tool()
    async def upgrade(
        path: str, to: Literal["0.3", "0.4", "0.5", "0.6", "0.7"] = "0.3", write: bool = False
    ) -> str:
        """Bring the kernels of a file or folder to a newer NKI release; return JSON.

        Args:
            path: Absolute path.
            to: The release.
            write: Write the changed files.
        """
        return await run("upgrade", file_of(path, ""), "--to", to, "--format", "json", write=write)

    @offered.tool()
    async def find(words: str, nki: str = "") -> str:
        """Return the legal calls for an operation, with their signatures.

        Args:
            words: An operation in words, or a name, also one that NKI does not have, such as
                nisa.multiply or torch.matmul.
            nki: NKI version to judge by.
        """
        return await run("find", words, nki=nki)

    return offered
