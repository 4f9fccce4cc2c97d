"""Unified diffs: form feeds, and a last line without an end."""

from pathlib import Path

from nkisim.rewriting import unified_diff


def test_a_form_feed_is_part_of_a_line():
    diff = unified_diff(Path("k.py"), "a\n\x0c\nb\n", "a\n\x0c\nc\n")
    assert diff == "--- a/k.py\n+++ b/k.py\n@@ -1,3 +1,3 @@\n a\n \x0c\n-b\n+c\n"


def test_a_last_line_without_an_end_is_marked():
    end = "\\ No newline at end of file\n"
    assert unified_diff(Path("k.py"), "a", "b").endswith(f"-a\n{end}+b\n{end}")


def test_equal_texts_have_no_diff():
    assert unified_diff(Path("k.py"), "a\n", "a\n") == ""
