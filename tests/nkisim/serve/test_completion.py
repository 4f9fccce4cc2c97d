"""Completion and signatures of ``nkisim serve --lsp``, from texts and by a client over stdio."""

from __future__ import annotations

import re

import pytest
from lsprotocol import types

from each_case import each_case
from nkisim import versions
from nkisim.serve.completion import (
    arguments_of,
    imports_of,
    members_of,
    missing_arguments,
    open_call,
    signature,
    typed_at,
)

from .harness_serve import GOOD, written
from .test_editor import session

VERSIONS = ["0.3.0", "0.7.0"]


def labels(items):
    return [item.label for item in items]


@each_case("version", versions.VERSIONS)
def test_a_module_has_the_names_of_the_version(version):
    """All of them, and nothing else."""
    for module in ("nki.isa", "nki.language", "nki.collectives"):
        content = versions.names_of(version)[module]
        wanted = {*content["functions"], *content["classes"], *content["names"]}
        assert set(labels(members_of(module, version))) == wanted
    assert {"isa", "language", "jit"} <= set(labels(members_of("nki", version)))
    engines = labels(members_of("nki.isa.engine", version))
    assert {"scalar", "vector"} <= set(engines)
    assert members_of("numpy", version) == []


def test_arguments_are_those_of_the_version():
    for version in versions.VERSIONS:
        for module in ("nki.isa", "nki.language"):
            for name in versions.names_of(version)[module]["functions"]:
                names = [a.partition("=")[0] for a in arguments_of(f"{module}.{name}", version)]
                assert names == [*versions.parameter_names(version, module, name)]
    new = {*arguments_of("nki.isa.dma_copy", "0.6.0")} - {
        *arguments_of("nki.isa.dma_copy", "0.3.0")
    }
    assert "priority=None" in new


@each_case(
    ("text", "wanted"),
    [
        ("nisa.tensor_copy(", ("nisa.tensor_copy", 0, "", ())),
        ("x = nisa.tensor_copy(dst=a[0, 1], s", ("nisa.tensor_copy", 1, "", ("dst",))),
        ("nisa.activation(a, op=", ("nisa.activation", 1, "op", ("op",))),
        ("nisa.tensor_copy(f(a, b), ", ("nisa.tensor_copy", 1, "", ())),
        ("nisa.tensor_copy(f(a, ", ("f", 1, "", ())),
        ("nisa.tensor_copy(dst=[a, ", ("", 1, "", ())),
        ("nisa.iota(dst=d,\n    # one, two\n    pattern=[[1, n]],\n    ", None),
        ('nl.load("a, b(", ', ("nl.load", 1, "", ())),
        ("nisa.memset(dst=t, value=0.0)\n", ("", 0, "", ())),
        ("def f(x):\n    if (", ("", 0, "", ())),
        ("", ("", 0, "", ())),
    ],
)
def test_the_call_that_is_open(text, wanted):
    found = open_call(text)
    wanted = wanted or ("nisa.iota", 2, "", ("dst", "pattern"))
    assert (found.function, found.position, found.keyword, found.given) == wanted


def test_what_was_typed():
    assert typed_at("    nisa.tens") == ("nisa", "tens")
    assert typed_at("f(nki.isa.") == ("nki.isa", "")
    assert typed_at("f(a, ds") == ("", "ds")
    assert typed_at("") == ("", "")


def test_imports_are_read_from_a_text_that_is_not_valid():
    text = "import nki.isa as nisa\nfrom nki import (\nimport nki.language as nl\n    nisa.\n"
    assert imports_of(text).splitlines() == [text.splitlines()[0], text.splitlines()[2]]


def test_arguments_that_are_missing():
    path = "nki.isa.tensor_copy"
    for text, wanted in (
        ("f(", ["dst=", "src=", "engine=", "name="]),
        ("f(dst=a, ", ["src=", "engine=", "name="]),
        ("f(a, ", ["src=", "engine=", "name="]),
        ("f(a, engine=e, ", ["src=", "name="]),
    ):
        assert labels(missing_arguments(path, open_call(text), "0.3.0")) == wanted, text


def test_the_active_parameter():
    text = "Copy.\n\nArgs:\n    dst: Tile\n        of the result.\n    src: Source.\n"
    for typed, active in (("f(", 0), ("f(a, ", 1), ("f(src=", 1), ("f(dst=a, name=", 3)):
        help = signature("nki.isa.tensor_copy", open_call(typed), "0.3.0", text)
        assert help.active_parameter == active
    (shown,) = help.signatures
    assert shown.label == "tensor_copy(dst, src, engine=engine.unknown, name=None)"
    assert [p.documentation for p in shown.parameters[:2]] == ["Tile of the result.", "Source."]
    assert all(p.label in shown.label for p in shown.parameters)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_gets_names_and_signatures_while_a_line_is_typed(tmp_path, version):
    """The text is neither saved nor valid; the version is that of the project."""
    (tmp_path / "pyproject.toml").write_text(f'[tool.nkisim]\nnki = "{version}"\n')
    path = written(tmp_path, GOOD)
    before, _, after = GOOD.partition("    out = nl.ndarray")

    async def talk(editor):
        uri = editor.open(path)
        row = before.count("\n")

        async def typed(line):
            editor.type(uri, f"{before}{line}\n    out = nl.ndarray{after}")
            place = types.TextDocumentIdentifier(uri), types.Position(row, len(line))
            client = editor.client
            found = await client.text_document_completion_async(types.CompletionParams(*place))
            help = await client.text_document_signature_help_async(
                types.SignatureHelpParams(*place)
            )
            return found, help

        found, help = await typed("    nisa.")
        assert set(labels(found)) == set(labels(members_of("nki.isa", version)))
        assert help is None
        (one,) = [item for item in found if item.label == "nc_matmul"]
        resolved = await editor.client.completion_item_resolve_async(one)
        assert "stationary" in resolved.documentation

        found, help = await typed("    nisa.dma_copy(dst=tile, ")
        assert labels(found)[0] == "src="
        (shown,) = help.signatures
        given = versions.parameters(version, "nki.isa", "dma_copy").replace("'", "")
        assert re.sub(r"[ ']", "", shown.label) == f"dma_copy({given})".replace(" ", "")
        assert shown.parameters[help.active_parameter].label == "src"
        assert "is written" in shown.parameters[0].documentation

        found, help = await typed("    nl.load(x, dtype=nl.")
        assert "bfloat16" in labels(found)
        found, help = await typed("    print(")
        assert (found, help) == ([], None)

    session(talk)
