"""Children of the warm process: what they answer, how they end, and what they leave behind."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

from nkisim.cli.serving import warm_server
from nkisim.serve.requests import CRASHED, OUT_OF_TIME, Server, _Channel, _received

from .harness_serve import CRASHING, ENDLESS, ENVIRONMENT, GOOD, descendants, written


@pytest.fixture(scope="module")
def server():
    before = {process.pid for process in descendants()}
    with warm_server() as started:
        started.start()
        yield started
    assert {process.pid for process in descendants()} <= before


@pytest.fixture(scope="module", params=["forks", "spawns"])
def either(request, server):
    """A server that forks, and one for systems without forks."""
    return (
        server
        if request.param == "forks"
        else Server(server.command, server.rehearsal, forks=False)
    )


def checked(server, path, **options):
    return server.run(["check", path, "--format", "json"], **options)


def test_a_request_is_what_the_command_prints(either, tmp_path):
    path = written(tmp_path, GOOD)
    there = subprocess.run(
        [sys.executable, "-m", "nkisim", "check", path, "--format", "json"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    reply = checked(either, path)
    assert (reply.status, reply.output) == (there.returncode, there.stdout)
    assert json.loads(reply.output)["ok"]


def test_a_draft_takes_the_place_of_a_file(either, tmp_path):
    path = written(tmp_path, "raise ImportError\n")
    reply = checked(either, path, drafts={path: GOOD})
    assert json.loads(reply.output)["checked"]["kernels"] == 1, reply


def test_a_crash_ends_its_request_alone(either, tmp_path):
    reply = checked(either, written(tmp_path, CRASHING))
    assert reply.status == CRASHED
    assert "Aborted" in reply.errors
    assert "kernel.py" in reply.errors  # faulthandler shows the kernel's line
    assert checked(either, written(tmp_path, GOOD)).status == 0


def test_an_endless_kernel_ends_its_request_alone(either, tmp_path):
    started = time.monotonic()
    reply = checked(either, written(tmp_path, ENDLESS), seconds=2)
    assert (reply.status, reply.errors) == (OUT_OF_TIME, "the limit of 2 seconds")
    assert time.monotonic() - started < 30
    assert checked(either, written(tmp_path, GOOD)).status == 0


def test_memory_is_limited(server, tmp_path):
    hungry = GOOD.replace("tile = nl.load(x)", "x = bytearray(1 << 40)")
    reply = checked(server, written(tmp_path, hungry))
    assert "MemoryError" in reply.output


def test_what_files_print_is_apart_from_the_report(server, tmp_path):
    noisy = "import os; print('from Python'); os.system('echo from a process')\n" + GOOD
    reply = checked(server, written(tmp_path, noisy))
    assert json.loads(reply.output)["ok"]
    assert "from Python" in reply.errors
    assert "from a process" in reply.errors


def running(server, most):
    """The children of the warm process after some time in which there may be more than most."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        children = psutil.Process(server._process.pid).children(recursive=True)
        left = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
        if len(left) <= most:
            break
        time.sleep(0.05)
    return len(left)


def test_requests_run_at_once_and_a_cancelled_one_ends(server, tmp_path):
    endless = ["check", written(tmp_path, ENDLESS, "endless.py")]
    check = ["check", written(tmp_path, GOOD), "--format", "json"]

    async def both():
        slow = asyncio.create_task(server.answer(endless))
        replies = await asyncio.gather(*(server.answer(check) for _ in range(3)))
        assert not slow.done()
        slow.cancel()
        await asyncio.wait([slow])
        return replies

    assert [reply.status for reply in asyncio.run(both())] == [0, 0, 0]
    assert server.run(["--version"]).status == 0  # reaps
    assert running(server, 1) == 1  # for the next request


def test_a_child_ends_however_late_its_process_id_comes():
    mine, other = socket.socketpair()
    with mine, other, subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        channel = _Channel(mine)
        reader = threading.Thread(target=_received, args=(channel, 60))
        reader.start()
        threading.Timer(1.5, other.sendall, [b"%d\n" % child.pid]).start()
        channel.end()
        assert child.wait(20) == -signal.SIGKILL
        reader.join(20)
        assert not reader.is_alive()


def test_the_warm_process_has_no_threads(server):
    server.run(["--version"])
    assert psutil.Process(server._process.pid).num_threads() == 1


PARENT = """
import sys
from nkisim.cli.serving import warm_server

server = warm_server()
server.start()
print(server._process.pid, flush=True)
server.run(["check", sys.argv[1]])
"""


def test_nothing_is_left_of_a_client_that_dies(tmp_path):
    path = written(tmp_path, ENDLESS)
    client = subprocess.Popen(
        [sys.executable, "-c", PARENT, path], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    warm = psutil.Process(int(client.stdout.readline()))
    deadline = time.monotonic() + 60
    while len(warm.children()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    family = [warm, *warm.children()]
    assert len(family) == 3  # the second child is for the next request
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    client.stdout.close()
    assert psutil.wait_procs(family, timeout=60)[1] == []
