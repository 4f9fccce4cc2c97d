"""Completion and signatures in an editor: names of NKI's modules, and arguments of calls.

Both are read from the text that is being typed, which is rarely valid Python, and from the names
and signatures of one NKI version.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from contextlib import suppress
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

from lsprotocol import types

from nkisim.project import SettingsError, project_settings
from nkisim.spec.signatures import parsed_parameters
from nkisim.versions import NKI_VARIABLE, chosen, names_of, parameters

_TYPED = re.compile(r"([A-Za-z_][\w.]*\.)?(\w*)$")
_ARGUMENT = re.compile(r"^    (\w+): (.*?)(?=^    \w|\Z)", re.MULTILINE | re.DOTALL)


@dataclass
class OpenCall:
    """A call whose parenthesis is open where the text ends.

    Attributes:
        function: The dotted name of the function; empty for other brackets.
        position: The number of arguments before the one that is being typed.
        keyword: The name of that argument, if it is typed with one.
        given: The keywords of all arguments so far.
    """

    function: str = ""
    position: int = 0
    keyword: str = ""
    given: tuple[str, ...] = ()


def open_call(text: str) -> OpenCall:
    """Return the innermost call that is open at the end of a text."""
    stack: list[OpenCall] = [OpenCall()]
    dotted = last = ""
    with suppress(tokenize.TokenError, SyntaxError):  # the text ends in the middle
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            word = token.string
            if token.type == tokenize.NAME:
                dotted = f"{dotted}.{word}" if last == "." else word
            elif token.type == tokenize.OP and word in "([{":
                named = last.isidentifier() and not iskeyword(last)
                function = dotted if word == "(" and named else ""
                stack.append(OpenCall(function))
            elif token.type == tokenize.OP and word in ")]}" and len(stack) > 1:
                stack.pop()
            elif word == ",":
                stack[-1].position, stack[-1].keyword = stack[-1].position + 1, ""
            elif word == "=" and last.isidentifier():
                stack[-1].keyword = last
                stack[-1].given += (last,)
            last = word if word.strip() else last
    return stack[-1]


def imports_of(text: str) -> str:
    """Return the imports of a text that are complete lines."""
    found = []
    for line in text.splitlines():
        if re.match(r"(import|from)\b", line):
            with suppress(SyntaxError):
                ast.parse(line)
                found.append(line)
    return "\n".join(found) + "\n"


def version_of(path: str) -> str:
    """Return the NKI version of the project of a file, as commands choose it."""
    with suppress(SettingsError):
        named = project_settings(Path(path).resolve().parent).nki
        if named and NKI_VARIABLE not in os.environ:
            return named
    return chosen()


def typed_at(row: str) -> tuple[str, str]:
    """Return the owner and the beginning of a name that a row ends with, as of ``nisa.tens``."""
    found = _TYPED.search(row)
    assert found is not None  # both parts may be empty
    return (found[1] or "").removesuffix("."), found[2]


def members_of(owner: str, version: str) -> list[types.CompletionItem]:
    """Return the public names of a module of NKI, or the members of one of its enums."""
    kinds = types.CompletionItemKind
    modules = names_of(version)
    if owner not in modules:
        module, _, name = owner.rpartition(".")
        content = modules.get(module, {}).get("classes", {}).get(name, {})
        names = [*content.get("members", ()), *content.get("attributes", ())]
        return [types.CompletionItem(name, kind=kinds.EnumMember) for name in names]
    content = modules[owner]
    found = [
        types.CompletionItem(
            name,
            kind=kinds.Function,
            detail=f"{name}({given})",
            data=dict(path=f"{owner}.{name}", version=version),
        )
        for name, given in content["functions"].items()
    ]
    found += [types.CompletionItem(name, kind=kinds.Class) for name in content["classes"]]
    found += [types.CompletionItem(name, kind=kinds.Constant) for name in content["names"]]
    inner = [name.removeprefix(f"{owner}.") for name in modules if name.startswith(f"{owner}.")]
    return found + [types.CompletionItem(name, kind=kinds.Module) for name in inner]


def arguments_of(path: str, version: str) -> list[str]:
    """Return the parameters of a function of NKI in a version, each with its default."""
    module, _, name = path.rpartition(".")
    given = parameters(version, module, name) if module in names_of(version) else None
    if not given:
        return []
    read = parsed_parameters(given)
    return [a if value is None else f"{a}={ast.unparse(value)}" for a, value in read]


def missing_arguments(path: str, call: OpenCall, version: str) -> list[types.CompletionItem]:
    """Return the arguments that a call does not have yet, as keywords."""
    names = [argument.partition("=") for argument in arguments_of(path, version)]
    return [
        types.CompletionItem(
            f"{name}=",
            kind=types.CompletionItemKind.Field,
            detail=f"default {default}" if default else "required",
            sort_text=f"{place:02}",
        )
        for place, (name, _, default) in enumerate(names)
        if name not in call.given and place >= call.position - len(call.given)
    ]


def signature(path: str, call: OpenCall, version: str, text: str) -> types.SignatureHelp | None:
    """Return the signature of a function of NKI, with its active parameter.

    Args:
        path: The function, such as ``nki.isa.tensor_copy``.
        call: The call that is being typed.
        version: The NKI version.
        text: The documentation of the function.
    """
    arguments = arguments_of(path, version)
    if not arguments:
        return None
    names = [argument.partition("=")[0] for argument in arguments]
    about = {name: " ".join(words.split()) for name, words in _ARGUMENT.findall(text)}
    shown = types.SignatureInformation(
        f"{path.rpartition('.')[2]}({', '.join(arguments)})",
        documentation=text.partition("\n")[0],
        parameters=[
            types.ParameterInformation(argument, documentation=about.get(name))
            for name, argument in zip(names, arguments, strict=True)
        ],
    )
    active = names.index(call.keyword) if call.keyword in names else call.position
    return types.SignatureHelp([shown], active_signature=0, active_parameter=active)
