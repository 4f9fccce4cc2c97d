"""The child process: limits, what it has, and that nothing of it is left."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from nkisim.judging.child import Child, Ended, Limits

from .judged import RIGHT, verdict_of
from .references import matmul

ANSWERS = """
import os, sys, time, signal, subprocess

def answer(message):
    return {name: value for name, value in globals().items()}[message["do"]](message)

def echo(message):
    return message

def about(message):
    return {
        "descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd")),
        "null": [os.path.samefile(f"/proc/self/fd/{n}", os.devnull) for n in range(3)],
        "session": os.getsid(0) == os.getpid(),
        "folders": [os.getcwd(), os.environ["HOME"], os.environ["TMPDIR"]],
        "variables": sorted(os.environ),
        "pid": os.getpid(),
    }

def forever(message):
    while True:
        pass

def sleep(message):
    time.sleep(3600)

def eat(message):
    held = []
    while True:
        held.append(bytearray(1 << 24))

def crash(message):
    os.kill(os.getpid(), signal.SIGSEGV)

def leave(message):
    os._exit(7)

def children(message):
    made = [subprocess.Popen(["/bin/sleep", "600"]).pid for _ in range(2)]
    return made

def write(message):
    with open(message["file"], "w") as file:
        file.write("x" * 10000)

def complain(message):
    raise KeyError("of the child")

def unsendable(message):
    return object()

def guarded(message):
    from pathlib import Path

    from nkisim.judging.boot import refuse
    from nkisim.judging.guard import Guard

    code = compile("import os; os.system('true')", message["name"], "exec")
    Guard(Path("/folder"), refuse).begin()
    exec(code, {})
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "answers_of_a_test.py").write_text(ANSWERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "answers_of_a_test"


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """No process and no folder is left of a test's children."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    before = set(living())
    yield
    assert list(home.iterdir()) == []
    assert not set(living()) - before


def living():
    """The processes that this one began, and theirs."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, waiting = [], [os.getpid()]
    while waiting:
        parent = waiting.pop()
        below = [pid for pid, above in parents.items() if above == parent]
        found += below
        waiting += below
    return found


def test_what_a_child_has(module, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "1")
    with Child(module, environment={"GIVEN": "1"}) as child:
        about = child.ask({"do": "about"})
        assert child.ask({"do": "echo", "x": [1, (2.5, None)]}) == {
            "do": "echo",
            "x": [1, (2.5, None)],
        }
    assert len(about["descriptors"]) == 5  # three null devices, the channel, and the listing itself
    assert all(about["null"])
    assert about["session"]
    assert "SECRET_OF_THE_PARENT" not in about["variables"]
    assert "GIVEN" in about["variables"]
    assert set(about["folders"]) == {"/"}


@pytest.mark.parametrize("what", ["forever", "sleep"])
def test_a_child_that_never_answers(module, what):
    start = time.monotonic()
    with Child(module, Limits(seconds=2)) as child, pytest.raises(Ended) as ended:
        child.ask({"do": what})
    assert ended.value.reason == "time"
    assert time.monotonic() - start < 20


def test_a_child_that_eats_memory(module):
    with Child(module, Limits(memory=1 << 30)) as child, pytest.raises(Ended) as ended:
        child.ask({"do": "eat"})
    assert ended.value.reason == "memory"


@pytest.mark.parametrize(("what", "text"), [("crash", "SIGSEGV"), ("leave", "status 7")])
def test_a_child_whose_interpreter_ends(module, what, text):
    with Child(module) as child, pytest.raises(Ended, match=text) as ended:
        child.ask({"do": what})
    assert ended.value.reason == "crash"


def test_its_children_die_with_it(module):
    with Child(module) as child:
        made = child.ask({"do": "children"})
        assert all(Path(f"/proc/{pid}").exists() for pid in made)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in made) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in made)


@pytest.mark.parametrize(
    ("what", "text"), [("complain", "KeyError: 'of the child'"), ("unsendable", "object")]
)
def test_an_exception_is_quoted(module, what, text):
    with Child(module) as child, pytest.raises(Ended, match=text) as ended:
        child.ask({"do": what})
    assert ended.value.reason == "raised"


def test_the_guard_names_the_line_that_starts_a_process(module):
    with Child(module) as child, pytest.raises(Ended, match=r"calls os\.system") as ended:
        child.ask({"do": "guarded", "name": "/folder/kernel.py"})
    assert ended.value.reason == "refused"
    assert ended.value.data == {"file": "/folder/kernel.py", "line": 1}


def test_no_file_grows(module, tmp_path):
    file = tmp_path / "written"
    with Child(module) as child, pytest.raises(Ended, match="too large"):
        child.ask({"do": "write", "file": str(file)})
    assert file.stat().st_size == 0


PARENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from nkisim.judging.child import Child, Limits

with Child("answers_of_a_test", Limits(seconds=float(sys.argv[3]))) as child:
    print(child.ask({"do": "about"})["pid"], flush=True)
    if sys.argv[2]:
        child.ask({"do": sys.argv[2]})
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("sent", "what", "seconds"),
    [
        (signal.SIGTERM, "", 60),
        (signal.SIGKILL, "", 60),
        (signal.SIGKILL, "forever", 15),
        (signal.SIGKILL, "sleep", 15),
    ],
)
def test_nothing_is_left_of_a_parent_that_a_signal_ends(sent, what, seconds, module, tmp_path):
    """A child that waits for a message ends with its parent, another one with its limits."""
    given = [sys.executable, "-c", PARENT, str(tmp_path), what, str(seconds)]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "home")}
    with subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        child = int(parent.stdout.readline())
        time.sleep(0.2)
        parent.send_signal(sent)
    deadline = time.monotonic() + 60
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(child)


def is_running(pid):
    """Whether a process has not ended; a container may leave it as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


AS_IT_IS = """
@nki.jit
def cheat(a, b):
    return matmul(a, b)
"""

ENDLESS = """
@nki.jit
def cheat(a, b):
    tile = loaded(a)
    for _ in range(2_000_000_000):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
    return matmul(a, b)
"""

GREEDY = (
    AS_IT_IS
    + """
HELD = []
while True:
    HELD.append(bytearray(1 << 24))
"""
)

#: The nested iterators recurse in C code, which overflows the stack.
DEADLY = (
    AS_IT_IS
    + """
import itertools
NESTED = iter(())
for _ in range(1000000):
    NESTED = itertools.chain(NESTED, ())
next(NESTED, None)
"""
)


@pytest.mark.parametrize(
    ("text", "fault", "status", "limits"),
    [
        (ENDLESS, "time", 5, {"seconds": 2.0}),
        (GREEDY, "memory", 1, {"memory": 2 << 30}),
        (DEADLY, "crash", 1, {}),
    ],
    ids=["endless", "greedy", "deadly"],
)
def test_the_verdict_on_a_kernel_that_does_not_end_well(text, fault, status, limits, tmp_path):
    folder = tmp_path / "kernel"
    folder.mkdir()
    shapes = "a=f32[128,32] b=f32[128,64]"
    verdict = verdict_of(folder, RIGHT + text, "cheat", matmul, shapes, limits=limits)
    assert [f.kind for f in verdict.faults] == [fault], verdict
    assert verdict.status == status
    assert len(list(folder.iterdir())) == 2
