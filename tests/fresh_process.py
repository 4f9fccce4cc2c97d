"""Python code in an interpreter of its own."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

# What this process imports, be it a checkout beside the one that is installed.
_SOURCES = Path(find_spec("nkisim").origin).parents[1]
_VARIABLES = ("TRNSCI_", "NKI_SIMULATOR", "NEURON_", "PYTHONPATH")


def printed_by(code, *, path=(), **variables):
    """What ``code`` prints, as JSON, with folders in front of ``sys.path`` and variables set.

    Warnings are errors there too, and nothing else may be written to the standard error.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_VARIABLES)}
    clean["PYTHONDONTWRITEBYTECODE"] = "1"
    clean["PYTHONPATH"] = os.pathsep.join(map(str, (*path, _SOURCES)))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import json\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean | variables,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])
