"""Text of others in Markdown: shown as it is, on one line, and nothing but text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rendered import codes, marks, rendered
from sfumato._core.markdown import escape_markdown, format_as_code
from sfumato._terminal_safe import UNPRINTABLE, escape_unprintable

MARKS = st.text(st.sampled_from("`~*_[]()<>#!|&;:@$\\{}^=+-.1 \n\r\t\x1b\x85\u2028\u202eaw/é"), max_size=20)
TEXTS = MARKS | st.text(max_size=20)


@given(TEXTS)
def test_text_is_shown_as_it_is(text: str) -> None:
    for before, after in (("", ""), ("# ", ""), ("- `x`: ", ""), ("Before\n\n", "\n\nafter"), ("Said: ", " and more.")):
        written = before + escape_markdown(text) + after
        assert marks(written) == marks(f"{before}x{after}" if text.strip(" ") else before + after)
        assert " ".join(escape_unprintable(text).split()) in " ".join(rendered(written).split())
    assert not UNPRINTABLE.search(escape_markdown(text))


@given(TEXTS)
def test_code_is_shown_as_it_is(text: str) -> None:
    written = f"The column {format_as_code(text)} is protected."
    assert codes(written) == [escape_unprintable(text) or " "]
    assert not marks(written)
    assert not UNPRINTABLE.search(written)


@pytest.mark.parametrize(
    "text",
    ["https://x.example", "www.x.example", "x@y.example", "$x$", ":smile:", "[^1]", "==x==", "{{ x }}"],
)
def test_marks_of_dialects_are_escaped(text: str) -> None:
    """Links without brackets, formulas, pictograms, footnotes, templates: many readers know them."""
    assert escape_markdown(text) != text
    assert rendered(escape_markdown(text)) == text


@pytest.mark.parametrize("text", ["Main diagnosis (ICD-10), coded 1/2 at 99%", "0.1.0", "it's the 'age'; 3 of 5: yes"])
def test_plain_text_stays_plain(text: str) -> None:
    assert escape_markdown(text) == text
