"""Every parameter of every instruction has one sentence, in its declaration or the shared table."""

import inspect
import re
from collections import Counter

import pytest

import nkisim.isa as nisa
from each_case import each_case
from nkisim.diagnostics import NkiValidationError
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.parameters import SHARED, arguments_section, described
from nkisim.spec.signatures import CALLS, open_function
from nkisim.versions import VERSIONS

SENTENCE = re.compile(r"[A-Z](?!.*\. ).*[^.]\.")  # without an end inside
OTHERS = {
    name: function
    for name, function in vars(nisa).items()
    if inspect.isfunction(function) and name not in INSTRUCTIONS and not name.startswith("_")
}

each = each_case("name", sorted(INSTRUCTIONS))


def own(name):
    """The sentences of an instruction's own docstring."""
    return described(inspect.getdoc(INSTRUCTIONS[name].body))[1]


@each
def test_every_parameter_has_one_sentence(name):
    declared = INSTRUCTIONS[name]
    assert [*declared.meanings] == [*declared.parameters]
    assert [p for p, said in declared.meanings.items() if not SENTENCE.fullmatch(said)] == []
    assert not {*own(name)} - {*declared.parameters}


@each
def test_a_declaration_names_its_parameters_once_and_in_order(name):
    entries = re.findall(r"^    (\w+): ", inspect.getdoc(INSTRUCTIONS[name].body), re.MULTILINE)
    assert entries == [p for p in INSTRUCTIONS[name].parameters if p in own(name)]


@each
def test_help_shows_the_parameters_of_its_version(name):
    declared = INSTRUCTIONS[name]
    public = getattr(inspect.getmodule(declared.body), name)
    for version, function in public.in_version.items():
        text, shown = described(inspect.getdoc(function))
        assert text == declared.description
        assert [*shown] == [*CALLS[name][version].signature.parameters]
        assert shown.items() <= declared.meanings.items()


def test_shared_sentences_are_shared():
    """Two instructions or more use each, and none repeats it."""
    users = Counter(
        p for name, i in INSTRUCTIONS.items() for p in i.parameters if p not in own(name)
    )
    assert {p for p, count in users.items() if count > 1} == {*SHARED}
    assert [
        (n, p) for n in INSTRUCTIONS for p, said in own(n).items() if SHARED.get(p) == said
    ] == []


@each_case("name", sorted(OTHERS))
def test_functions_beside_the_instructions_describe_their_parameters(name):
    _, sentences = described(inspect.getdoc(OTHERS[name]))
    assert [*sentences] == [*inspect.signature(OTHERS[name]).parameters]
    assert all(SENTENCE.fullmatch(said) for said in sentences.values())


def test_a_section_is_read_as_it_is_written():
    sentences = {"a": "First.", "b": "A sentence: " + "long " * 40 + "one.", "c": "Last."}
    assert described("What." + arguments_section(sentences)) == ("What.", sentences)
    assert described("What.\n\nMore.") == ("What.\n\nMore.", {})
    assert arguments_section({}) == ""


@pytest.mark.parametrize(
    "wrong", [{}, {"dst": 0, "value": 1, "color": 2}], ids=["no arguments", "unknown argument"]
)
def test_the_first_call_of_a_function_is_like_the_next(wrong):
    checked = CALLS["memset"][VERSIONS[0]]

    def made():
        return open_function(
            "memset", checked.signature, lambda *args, **named: (args, named), checked.reject
        )

    def refused(function):
        with pytest.raises(NkiValidationError) as caught:
            function(**wrong)
        return str(caught.value), [entry.name for entry in caught.traceback]

    function = made()
    assert refused(function) == refused(function)
    function = made()
    assert function(1, value=2) == function(1, value=2) == made()(1, 2)
    for _ in range(2):
        with pytest.raises(TypeError, match="multiple values for argument 'dst'"):
            function(1, dst=1)
