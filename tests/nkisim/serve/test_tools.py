"""The tools of ``nkisim serve --mcp``, called by the client of the protocol's own package."""

import asyncio
import json

import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from nkisim.cli import commands

from .harness_serve import BAD, COMMAND, CRASHING, ENVIRONMENT, GOOD, written

TOOLS = {"check", "find", "fix", "judge", "profile", "rule", "tune", "upgrade"}

REFERENCE = "def doubled(x):\n    return 2 * x\n"

SCALED = GOOD.replace("512]):", "512], FACTOR):").replace("operand0=2.0", "operand0=FACTOR")
"""A kernel with a parameter that has variants."""


def session(talk):
    """Return what a coroutine function returns that is given a connected client."""

    async def connected():
        command, *arguments = [*COMMAND, "--mcp"]
        started = StdioServerParameters(command=command, args=arguments, env=ENVIRONMENT)
        async with Client(started) as client:
            return await talk(client)

    return asyncio.run(connected())


async def text(client, name, /, **arguments):
    result = await client.call_tool(name, arguments)
    return result.is_error, "".join(part.text for part in result.content)


async def at_once(client, path):
    return await asyncio.gather(*(text(client, "check", path=path) for _ in range(4)))


def test_a_session(tmp_path):
    good, bad = written(tmp_path, GOOD, "good.py"), written(tmp_path, BAD, "bad.py")
    crashing = written(tmp_path, CRASHING, "crashing.py")
    wrong = written(tmp_path, GOOD.replace("2.0", "3.0"), "wrong.py")
    scaled = written(tmp_path, SCALED, "scaled.py")
    reference = written(tmp_path, REFERENCE, "reference.py") + "::doubled"

    tuning = {"space": "FACTOR=4.0,2.0", "reference": reference}

    async def talk(client):
        listed = (await client.list_tools()).tools
        answers = [
            await text(client, "check", path=good),
            await text(client, "check", path=bad, target="trn2"),
            await text(client, "fix", path=bad),
            await text(client, "profile", path=good),
            await text(client, "rule", name="M004"),
            await text(client, "upgrade", path=good, to="0.6"),
            await text(client, "find", words="nisa.multiply"),
            await text(client, "judge", path=good, reference=reference),
            await text(client, "judge", path=wrong, reference=reference, kernel="double"),
            await text(client, "tune", path=scaled, kernel="double", **tuning),
            await text(client, "judge", path=good, reference="reference.py::doubled"),
            await text(client, "check", path=crashing),
            await text(client, "check", path="kernel.py"),
            await text(client, "check", path=good),  # the server goes on
            await text(client, "check", source=GOOD),
            await text(client, "fix", source=BAD),
            await text(client, "judge", source=GOOD, reference=reference),
            await text(client, "fix", source=BAD, write=True),
            await text(client, "check"),
        ]
        return listed, answers, await at_once(client, good)

    listed, answers, replies = session(talk)
    assert set(replies) == {answers[13]}
    assert {tool.name for tool in listed} == TOOLS
    assert all(tool.input_schema["properties"] for tool in listed)
    failed = [index for index, (is_error, _) in enumerate(answers) if is_error]
    assert failed == [10, 11, 12, 17, 18]
    check, found, fixed, profiled, page, upgraded, meant, right, refused, tuned = (
        answer for _, answer in answers[:10]
    )
    nameless, crash, relative, again, *of_texts = (answer for _, answer in answers[10:])
    assert json.loads(check)["ok"]
    assert json.loads(again) == json.loads(check)
    assert [finding["rule"] for finding in json.loads(found)["findings"]] == ["A025"]
    assert "+    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)" in fixed
    assert json.loads(profiled)["profiles"][0]["kernel"] == "double"
    assert page.startswith("# M004")
    assert json.loads(upgraded)["files"][0]["path"] == good
    assert "nisa.tensor_tensor(dst, data1, data2" in meant
    assert json.loads(right)["outcome"] == "right"
    assert json.loads(refused)["outcome"] == "wrong"
    (ranking,) = json.loads(tuned)["tunings"]
    assert [v["values"] for v in ranking["variants"]] == [{"FACTOR": 2.0}]
    assert [dropped["values"] for dropped in ranking["dropped"]] == [{"FACTOR": 4.0}]
    assert "accepted: an absolute path" in nameless
    assert "Aborted" in crash
    assert "accepted: an absolute path" in relative
    checked, diff, verdict, unwritten, neither = of_texts
    assert json.loads(checked) == json.loads(check.replace(good, "-"))
    assert diff.splitlines()[2:] == fixed.splitlines()[2:]
    assert json.loads(verdict)["outcome"] == "right"
    assert "it needs a path" in unwritten
    assert "one of path and source" in neither


@pytest.mark.slow
def test_clients_at_once(tmp_path):
    path = written(tmp_path, GOOD)

    def results():
        return session(lambda client: at_once(client, path))

    async def both():
        return await asyncio.gather(*(asyncio.to_thread(results) for _ in range(2)))

    replies = [reply for client in asyncio.run(both()) for reply in client]
    assert len(replies) == 8
    assert len(set(replies)) == 1
    assert json.loads(replies[0][1])["ok"]


@pytest.mark.parametrize("given", [[], ["--mcp", "--lsp"]])
def test_one_protocol_is_chosen(given):
    from click.testing import CliRunner

    result = CliRunner().invoke(commands, ["serve", *given])
    assert result.exit_code == 2
    assert "give one of --mcp and --lsp" in result.output
