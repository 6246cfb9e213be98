"""Nothing that a table or a release says steers a terminal."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from sfumato._terminal_safe import UNPRINTABLE, escape_json, escape_lines, escape_unprintable, hide_passwords

TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""The classes of the characters that turn the order of letters around."""
MARKS = "\u061c\u200e\u200f"
"""Those that do so without a class of their own."""


@pytest.mark.slow
def test_every_control_and_every_turning_mark_is_escaped() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        steers = unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
        if steers or unicodedata.bidirectional(character) in TURNING or character in MARKS:
            assert escape_unprintable(character).isascii(), hex(number)
            assert escape_unprintable(character).isprintable(), hex(number)


def test_letters_of_all_scripts_stay_as_they_are() -> None:
    for text in (
        "naïve Ärztin",
        "\u0645\u06cc\u200c\u062e",
        "क्\u200dष",
        "日本語",
        "👩\u200d⚕️",
        "a / b",
        "\\x1b",
        "[red]",
    ):
        assert escape_unprintable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\r\nb\t", r"a\r\nb\t"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("\U000e0041\udcff", r"\U000e0041\udcff"),
    ],
)
def test_escapes_are_those_of_python(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown
    assert escape_unprintable(shown) == shown


def test_lines_of_our_own_stay_lines() -> None:
    assert escape_lines("one\ntwo\x1b") == "one\ntwo\\x1b"


def test_json_means_the_same() -> None:
    every = {"".join(map(chr, range(0xD800))): [chr(0x202E), "\U000e0041\ufeff", "é"]}
    written = escape_json(json.dumps(every, ensure_ascii=False, indent=2))
    assert json.loads(written) == every
    assert not UNPRINTABLE.search(written.replace("\n", ""))
    assert "é" in written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://me:p@ss/w0rd@host/db", "postgresql://me:***@host/db"),
        ("postgres:/me:secret@host", "postgres:/me:***@host"),
        ("see x://:secret@host now", "see x://:***@host now"),
        ("a?password=secret&b=1", "a?password=***&b=1"),
        ("sslpassword=secret", "sslpassword=***"),
        ("s3://bucket/name, and no more: a@b", "s3://bucket/name, and no more: a@b"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
    ],
)
def test_passwords_in_addresses_are_not_told(text: str, expected: str) -> None:
    assert hide_passwords(text) == expected
