"""What is said of a name or a value that is not there."""

from __future__ import annotations

import time

import pytest

from sfumato._core.suggestions import LONGEST, explain_missing_name, find_nearest


@pytest.mark.parametrize(
    ("text", "known", "found"),
    [
        ("flue", ["flu", "asthma"], "flu"),
        ("f", ["F", "M"], "F"),
        (" HIV ", ["HIV", "hives"], "HIV"),
        ("30-39", ["[20,30)", "[30,40)"], "[30,40)"),
        ("30-40", ["[20,30)", "[30,40)"], "[30,40)"),
        ("[30, 40]", ["[20,30)", "[30,40)"], "[30,40)"),
        ("plague", ["flu", "asthma"], None),
        ("?", ["!", "??"], "??"),
        ("", ["flu"], None),
        ("flu", [], None),
    ],
)
def test_the_nearest_is_found_whatever_its_letters_and_brackets(text: str, known: list[str], found: str | None) -> None:
    assert find_nearest(text, known) == found


def test_long_texts_and_many_are_not_compared_for_long() -> None:
    begin = time.process_time()
    assert find_nearest("a" * (LONGEST + 1), ["a" * LONGEST]) is None
    assert find_nearest("a" * 50, [f"{number:050d}" for number in range(100_000)]) is None
    assert time.process_time() - begin < 5


def test_the_sentence_names_the_first_of_what_there_is() -> None:
    known = [f"v{number}" for number in range(1500)]
    assert (
        explain_missing_name("x", known, "'a' has no value", most=2)
        == "'a' has no value 'x'; it has 'v0', 'v1' and 1,498 more."
    )
    assert explain_missing_name("b", ["a"], "there is no") == "there is no 'b'; it has 'a'."
