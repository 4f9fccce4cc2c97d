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
COMMANDS = "nkisim.cli.profiling, nkisim.cli.upgrading, nkisim.cli.scripts, pytest"
"""What the interpreter has imported that commands are forks of."""

_SECONDS = 120
_SERVER_VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "random",  # another one than that of this process
}
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


def printed_after(module, code, *, path=(), **variables):
    """The same, of a fork of an interpreter that has imported one module alone.

    To import torch takes 2 s of processor time, nkisim 0.7 s; a fork takes 0.02 s.
    """
    code = f"import json, warnings\nwarnings.simplefilter('error')\n{code}"
    done = forked(module, code, path=path, env=_environment() | variables)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])


def forked(module, code, *, arguments=(), path=(), env=None, cwd=None):
    """Run ``code`` as the main program of a fork of an interpreter that has imported modules."""
    server = _server(module)
    with TemporaryDirectory() as folder:
        asked = [code, list(arguments), [*map(str, path)], env, cwd and str(cwd), folder]
        print(json.dumps(asked), file=server.stdin, flush=True)
        assert select.select([server.stdout], [], [], _SECONDS)[0], f"no end of {code}"
        status = int(server.stdout.readline())
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess(code, status, out, err)


def nkisim_command(*arguments, env=None, cwd=None):
    """Run ``python -m nkisim``, in the environment of this process unless one is given."""
    return _command("nkisim", arguments, env, cwd)


def pytest_command(*arguments, env=None, cwd=None):
    """Run ``python -m pytest`` where nkisim has been imported, and no plugin of it."""
    return _command("pytest", arguments, env, cwd)


def _command(module, arguments, env, cwd):
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    env = dict(os.environ) if env is None else env
    return forked(COMMANDS, code, arguments=map(str, arguments), env=env, cwd=cwd)


def _environment(path=()):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_VARIABLES)}
    clean["PYTHONDONTWRITEBYTECODE"] = "1"
    clean["PYTHONPATH"] = os.pathsep.join(map(str, (*path, _SOURCES)))
    return clean


# A child leaves the loop and ends as any program does, with what it registered for its end. Only
# the memory is not freed one object after the other: with torch that takes 0.6 s.
_FORKS = """
import atexit, json, os, sys, warnings

status = 0

def end():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        stream.flush()
    os._exit(status)

atexit.register(end)  # the first that is registered is the last that is called
import MODULE
for line in sys.stdin:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which a fork has not
        child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    raise SystemExit
code, arguments, path, env, cwd, folder = json.loads(line)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for number, name in ((1, "out"), (2, "err")):
    os.dup2(os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY), number)
if env is not None:
    os.environ.clear()
    os.environ.update(env)
if cwd is not None:
    os.chdir(cwd)
sys.argv[1:] = arguments
sys.path[:0] = path
try:
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
except SystemExit as error:
    status = error.code if isinstance(error.code, int) else int(error.code is not None)
    raise
except BaseException:
    status = 1
    raise
"""


@cache
def _server(module):
    """The interpreter that forks; it ends with this process."""
    server = subprocess.Popen(
        [sys.executable, "-c", _FORKS.replace("MODULE", module)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment() | _SERVER_VARIABLES,
    )

    def end():
        server.stdin.close()
        server.wait(_SECONDS)
        server.stdout.close()

    atexit.register(end)
    return server
