"""Python code in an interpreter of its own."""

import atexit
import json
import os
import select
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

# What this process imports, be it a checkout beside the one that is installed.
_SOURCES = Path(find_spec("nkisim").origin).parents[1]
_SECONDS = 120
_VARIABLES = ("TRNSCI_", "NKI_SIMULATOR", "NEURON_", "PYTHONPATH")


def printed_by(code, *, path=(), **variables):
    """What ``code`` prints, as JSON, with folders in front of ``sys.path`` and variables set.

    Warnings are errors there too, and nothing else may be written to the standard error.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import json\n{code}"],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env=_environment(path) | variables,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])


def printed_after_torch(code, *, path=()):
    """The same, of a fork of an interpreter that has imported torch, which takes long, alone."""
    server = _server()
    with TemporaryDirectory() as folder:
        print(json.dumps([code, [*map(str, path)], folder]), file=server.stdin, flush=True)
        assert select.select([server.stdout], [], [], _SECONDS)[0], f"no end of {code}"
        status = int(server.stdout.readline())
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
    assert (status, err) == (0, "")
    return json.loads(out.splitlines()[-1])


def _environment(path=()):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_VARIABLES)}
    clean["PYTHONDONTWRITEBYTECODE"] = "1"
    clean["PYTHONPATH"] = os.pathsep.join(map(str, (*path, _SOURCES)))
    return clean


_FORKS = """
import json, os, sys, torch, traceback, warnings
for line in sys.stdin:
    code, path, folder = json.loads(line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which a fork has not
        child = os.fork()
    if child == 0:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY), number)
        warnings.simplefilter("error")
        sys.path[:0] = path
        status = 1
        try:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__", "json": json})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@cache
def _server():
    """The interpreter that forks; it ends with this process."""
    server = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )

    def end():
        server.stdin.close()
        server.wait(_SECONDS)
        server.stdout.close()

    atexit.register(end)
    return server
