"""Cost of commands: interpreter, imports and work of each, and a check by the warm process.

    python benchmarks/bench_serve.py            print the tables
    python benchmarks/bench_serve.py --many     also a thousand requests, with the memory

The seconds of commands are processor time, the least of some runs. A check by a child of the warm
process is compared with the same check in this process, in turns; each checks a text that is new to
it, as an editor's is: unchanged files are cached in a process. Between them is a pause, as between
saves.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import psutil
from bench_check import HEAD, KERNEL

from nkisim.cli import commands
from nkisim.cli.serving import warm_server
from nkisim.serve.requests import Server

EXAMPLES = """def nkisim_examples():
    import numpy as np

    return [(kernel0, (np.ones((1024, 256), np.float32), 2.0))]
"""

ROUNDS = 5
PAUSE = 0.3


def processor_seconds(arguments: list[str]) -> float:
    """Return the least processor time of a Python process."""
    import resource

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    best = float("inf")
    for _ in range(ROUNDS):
        before = used()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
        best = min(best, used() - before)
    return best


def imported_by(arguments: list[str]) -> str:
    """Return a statement that imports the modules of a command and nothing else."""
    code = (
        "import sys; from nkisim.cli import commands\n"
        f"try: commands.main({arguments!r}, standalone_mode=False)\n"
        "except BaseException: pass\n"
        "sys.stderr.write('\\n' + ','.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    names = done.stderr.rpartition("\n")[2].split(",")
    wanted = [name for name in names if name.split(".")[0] in ("click", "nkisim", "numpy", "rich")]
    wanted.sort(key=lambda name: not name.startswith("nkisim.cli"))
    return "import sys\nfor name in " + repr(wanted) + ":\n  __import__(name)"


def show_commands(path: str) -> None:
    """Print the shares of each command."""
    interpreter = processor_seconds(["-c", "pass"])
    print(f"{'command':<24}{'interpreter':>12}{'imports':>9}{'work':>9}{'CPU s':>9}")
    for line in (
        ["--version"],
        ["rule", "M004"],
        ["upgrade", path],
        ["check", "--source-only", path],
        ["check", path],
        ["profile", path],
    ):
        whole = processor_seconds(["-m", "nkisim", *line])
        imports = max(processor_seconds(["-c", imported_by(line)]) - interpreter, 0.0)
        work = max(whole - interpreter - imports, 0.0)
        shown = "".join(
            f"{part / whole:>{width}.0%}"
            for part, width in ((interpreter, 12), (imports, 9), (work, 9))
        )
        print(f"{' '.join(line[:-1]) or line[0]:<24}{shown}{whole:>9.3f}")


def warm_ratio(server: Server, path: Path, rounds: int = 25) -> tuple[float, float]:
    """Return the median seconds of a check by a child, and of one in this process."""
    text, count = path.read_text(), 0

    def seconds(check: Callable[[], object]) -> float:
        nonlocal count
        count += 1
        path.write_text(f"# {count}\n{text}")
        start = time.perf_counter()
        check()
        return time.perf_counter() - start

    line = ["check", str(path), "--format", "json"]

    def in_process() -> None:
        with redirect_stdout(io.StringIO()):
            commands.main(line, standalone_mode=False)

    pairs = []
    for _ in range(rounds):
        time.sleep(PAUSE)
        pairs.append((seconds(lambda: server.run(line)), seconds(in_process)))
    warm, inside = zip(*pairs[2:], strict=True)
    return statistics.median(warm), statistics.median(inside)


def show_many(server: Server, path: Path, count: int = 1000) -> None:
    """Print the memory of the warm process before and after many requests."""
    warm = psutil.Process(server._process.pid)  # the benchmark measures what users do not see

    def memory() -> str:
        return f"{warm.memory_info().rss / 2**20:.1f} MiB, {warm.num_fds()} descriptors"

    before, start = memory(), time.perf_counter()
    statuses = {server.run(["check", str(path), "--format", "json"]).status for _ in range(count)}
    took = time.perf_counter() - start
    print(f"{count} requests in {took:.0f} s, statuses {statuses}: {before}; then {memory()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--many", action="store_true")
    many = parser.parse_args().many
    with tempfile.TemporaryDirectory() as folder, warm_server() as server:
        path = Path(folder, "kernel.py")
        path.write_text(HEAD + KERNEL.format(0) + EXAMPLES)
        show_commands(str(path))
        server.start()
        warm, inside = warm_ratio(server, path)
        print(
            f"warm check {warm * 1e3:.1f} ms, in process {inside * 1e3:.1f} ms: {warm / inside:.2f}"
        )
        if many:
            show_many(server, path)


if __name__ == "__main__":
    main()
