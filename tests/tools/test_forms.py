"""Both forms of a kernel are derived from its text."""

import pytest

from kernels.forms import form_lines

TEXT = """\
@twin(1)
def S001(a):
    x = 1  # bad here
    x = f(  # good: as large as a
        2,
    )
    # of the loop
    for i in x:  # bad
        try:
            g(i)
        except E:
            g(2)
    else:
        g(3)

    if a:
        h(x)  # good
        h(a)  # here
    match a:
        case 1:
            h(1)  # bad
        case _:
            h(2)


@guard(1)
def G01(a):  # good rows
    return a


@twin(2)
def bad_S002(a, b):
    return a  # here


@twin(2, fixed=(3,))
def S003(a):  # here
    return a
"""
BAD = """\
@twin(1)
def bad_S001(a):
    x = 1  # here



    # of the loop
    for i in x:
        try:
            g(i)
        except E:
            g(2)
    else:
        g(3)

    if a:

        h(a)  # here
    match a:
        case 1:
            h(1)
        case _:
            h(2)


@guard(1)
def G01(a):  # good rows
    return a


@twin(2)
def bad_S002(a, b):
    return a  # here


@twin(2, fixed=(3,))
def bad_S003(a):  # here
    return a
"""
GOOD = """\
@twin(1)
def good_S001(a):

    x = f(  # as large as a
        2,
    )









    if a:
        h(x)
        h(a)
    match a:
        case 1:

        case _:
            h(2)


@guard(1)
def G01(a):  # good rows
    return a


@twin(2)
def bad_S002(a, b):
    return a


@twin(2, fixed=(3,))
def good_S003(a):
    return a
"""


@pytest.mark.parametrize(("form", "lines"), [("bad", BAD), ("good", GOOD)])
def test_a_form_has_its_lines_where_the_text_has_them(form, lines):
    assert [line or "" for line in form_lines(TEXT, form)] == lines.splitlines()


def test_an_empty_line_below_a_line_of_the_other_form_is_not_in_a_form():
    text = "def f():\n    import m  # bad\n\n    return 1\n\n\nx = 2\n"
    assert form_lines(text, "good") == ["def f():", None, None, "    return 1", "", "", "x = 2"]


def test_a_mark_that_is_on_no_statement_is_refused():
    with pytest.raises(ValueError, match=r"marks of lines \[3\] are on no statement's first line"):
        form_lines("if a:\n    b\nelse:  # bad\n    c\n", "good")
