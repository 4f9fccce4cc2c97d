"""The guard of a child: what code of the kernel's folder may open, load and call."""

import os
import sys
from importlib.util import cache_from_source

import numpy as np
import pytest

from nkisim.judging.guard import Guard, root_of

WRITES = [os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND]
MODES = [*[(mode, 0) for mode in ("w", "wb", "x", "a", "r+")], *[(None, n) for n in WRITES]]


class Refused(Exception):
    """In place of the end of the process."""


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    """Returns text, file and line of the refusal of an event; None if it is allowed."""
    hooks = []

    def refuse(*found):
        hooks[0]("open", ("/etc/passwd", "r", 0))  # an event of the refusal itself
        raise Refused(*found)

    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    monkeypatch.setattr(sys, "pycache_prefix", None)  # bytecode lies beside its file
    (tmp_path / "a").mkdir()
    Guard(tmp_path / "a", refuse).begin()

    def of(event, *arguments):
        try:
            return hooks[0](event, arguments)
        except Refused as refused:
            return refused.args

    return of


def test_files_of_the_kernel_and_of_libraries_may_be_read(refusal, tmp_path):
    (tmp_path / "a" / "out").symlink_to("/etc/passwd")
    (tmp_path / "in").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a/b/c", tmp_path / "in/c", os.__file__, np.__file__, __file__):
        allowed = path != __file__
        for name in (str(path), os.fsencode(path), cache_from_source(str(path))):
            assert (refusal("open", name, "rb", os.O_CLOEXEC) is None) == allowed
    assert refusal("open", str(tmp_path / "a/b")) is None
    for path in (tmp_path / "b", tmp_path / "a2/b", tmp_path / "a/out", "/etc/passwd"):
        assert refusal("open", str(path), "r", 0) == (f"opens {str(path)!r}", "", 0)
    assert refusal("open", 3, "r", 0)[0] == "opens 3"


@pytest.mark.parametrize(("mode", "flags"), MODES)
def test_no_file_may_be_written(mode, flags, refusal, tmp_path):
    assert refusal("open", str(tmp_path / "a" / "b"), mode, flags)[0].startswith("opens '")


def test_what_may_be_loaded_and_called(refusal, tmp_path):
    for name, allowed in ((f"{tmp_path}/a/b.so", False), (np.__file__, True), (None, True)):
        found = refusal("import", "b", name, None)
        assert found == (None if allowed else (f"loads {name!r}", "", 0))
    for event in ("os.listdir", "os.scandir", "os.putenv", "compile", "exec"):
        assert refusal(event, "a") is None
    for event in ("os.system", "subprocess.Popen", "socket.connect", "shutil.rmtree", "mmap.x"):
        assert refusal(event, "a", "b")[0] == f"calls {event} 'a'"
    assert refusal("os.system", "a" * 500)[0] == "calls os.system '" + 183 * "a"
    file, space = f"{tmp_path}/a/kernel.py", {"refusal": refusal}
    exec(compile("\n\ndef call():\n    return refusal('os.fork')\n", file, "exec"), space)
    assert space["call"]() == ("calls os.fork", file, 4)  # the line of the kernel's folder


def test_the_folder_of_a_package_is_around_it(tmp_path):
    folder = tmp_path / "package" / "part"
    folder.mkdir(parents=True)
    for above in (folder, folder.parent, tmp_path):
        assert root_of(folder / "kernel.py") == above
        (above / "__init__.py").touch()
