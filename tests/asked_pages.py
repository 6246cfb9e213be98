"""Asking the page of a release in a browser, and holding its answers against those of the library."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from playwright.sync_api import Browser, Page

from sfumato._query.estimate import Estimate
from sfumato._query.release import Release
from sfumato._report import QuestionPage

Question = dict[str, Any]
CLOSE = 1e-6
"""How far a number of the page may be from the library's, relative to it where it is larger than one."""
HOSTILE = "</script><img src=x onerror=\"alert('x')\">&<!--\u202e\\\" ' ]]>" + "W" * 400
FORMULA = '=HYPERLINK("http://example.org")'


DISEASES = {"flu": 8, "HIV": 1, "cold": 6, "asthma": 4, "gout": 3, "acne": 2, "mumps": 2, "x\"y'z": 1}


def patients(rows: int, seed: int = 1) -> pa.Table:
    """People with public columns of every type, some of them missing, and names that a page must not stumble over."""
    drawn = random.Random(seed)
    return pa.table(
        {
            "age": [drawn.choice([17, 18, *range(20, 60, 3), None]) for _ in range(rows)],
            "sex": [drawn.choice(["F", "M", None]) for _ in range(rows)],
            HOSTILE: [drawn.choice([HOSTILE, FORMULA, "O'Hara", "a,b"]) for _ in range(rows)],
            "day": [datetime.date(2020, 1, drawn.randint(1, 20)) for _ in range(rows)],
            "well": [drawn.random() < 0.3 for _ in range(rows)],
            "disease": drawn.choices(list(DISEASES), list(DISEASES.values()), k=rows),
        }
    )


def question(groups: Sequence[str] = (), **asked: Any) -> Question:
    """A question to a page, as its script takes it."""
    return {"conditions": {}, "groups": list(groups), "isShare": False, "level": 0.95, **asked}


def questions(about: Mapping[str, Any]) -> list[Question]:
    """Cross tables, conditions of every kind, sets of values, shares and levels, for a release of `patients`."""
    (own, *levels), (age, sex, odd, day, well) = ([each["id"] for each in about[kind]] for kind in KINDS)
    values = {each["id"]: len(each["values"]) for kind in KINDS for each in about[kind]}
    all_but_one = {"codes": list(range(values[own] - 1))}
    found = [
        question(),
        question([own]),
        question(conditions={own: {"codes": [1]}}),
        question([sex, odd], conditions={own: {"codes": [0, 2]}}),
        question([own], conditions={age: {"from": 20, "to": 40}}),
        question([sex], conditions={age: {"from": None, "to": 23}, own: {"codes": [0]}}),
        question([sex, own, well], conditions={sex: {"codes": [0, values[sex] - 1]}}),
        question([odd, own], conditions={day: {"from": "2020-01-03", "to": "2020-01-09"}}),
        question([well], conditions={day: {"codes": [1, 2]}, own: all_but_one}),
        question([well], conditions={own: {"codes": list(range(values[own]))}}),
        question([sex], conditions={own: {"codes": [1, 3]}}, isShare=True),
        question([sex], conditions={own: {"codes": [1, 3]}, day: {"codes": [1]}}, isShare=True),
        question([own, odd], conditions={age: {"codes": [1]}, sex: {"codes": [1]}}, level=0.9),
        question([own, sex], conditions={day: {"codes": [1]}, odd: {"codes": [1]}}, level=0.99),
    ]
    for level in levels:
        found += [question([level, sex]), question([own], conditions={level: {"codes": [0]}})]
    return found


def crossings(about: Mapping[str, Any]) -> list[Question]:
    """Cross tables of whatever is protected with the smallest public columns, for a release of any table."""
    own = [each["id"] for each in about["protected"]]
    first, second, *_ = sorted((each for each in about["public"]), key=lambda each: len(each["values"]))
    few = {"codes": [0, 1]}
    found = [question([each, first["id"]]) for each in own]
    found += [question([first["id"], second["id"]], conditions={each: few}) for each in own]
    found += [question(own), question(conditions={each: {"codes": [0]} for each in own})]
    return [
        *found,
        question([own[0]], conditions={each: few for each in (first["id"], second["id"], *own[1:])}, level=0.8),
    ]


KINDS = ("protected", "public")


@contextmanager
def opened(browser: Browser, page: QuestionPage, folder: Path, **context: Any) -> Iterator[Page]:
    """The page of a release in a browser, which complains of nothing and asks nobody."""
    file = folder / "ask.html"
    file.write_text(page.to_html(), encoding="utf-8")
    with browser.new_context(**context) as window:
        tab = window.new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: said.append(dialog.message))
        tab.on("request", lambda request: said.append(request.url))
        tab.goto(file.as_uri())
        tab.wait_for_selector("#answer[data-answered]")
        yield tab
        assert [each for each in said if not each.startswith("blob:")] == [file.as_uri()]


def until(tab: Page, expression: str) -> None:
    """Wait for something to be so, by looking again and again: the policy of the page lets no script wait for it."""
    for _ in range(500):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(10)
    raise AssertionError(expression)


def asked(tab: Page, question: Question) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The answer of a page, by the values of its groups."""
    values = {each["id"]: each["values"] for kind in KINDS for each in tab.evaluate(f"sfumato.about.{kind}")}
    rows = tab.evaluate("question => sfumato.ask(question)", question)
    return {
        tuple(values[id_][code] for id_, code in zip(question["groups"], each["codes"], strict=True)): each
        for each in rows
    }


def answered(release: Release, tab: Page, question: Question) -> dict[tuple[Any, ...], Estimate]:
    """The library's answer to what the page says the same question is in SQL."""
    answer = release.sql(tab.evaluate("question => sfumato.sql(question)", question))
    (number,) = answer.numbers
    groups = [name for name in answer.names if name != number]
    return {tuple(_written(row[name]) for name in groups): row[number] for row in answer.rows}


def _written(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def differences(
    mine: Mapping[tuple[Any, ...], Mapping[str, Any]], theirs: Mapping[tuple[Any, ...], Estimate], level: float
) -> Iterator[tuple[tuple[Any, ...], str, Any, Any]]:
    """Where the numbers, the errors, the intervals or the notes of two answers are not the same."""
    if set(mine) != set(theirs):
        yield (), "groups", sorted(map(str, mine)), sorted(map(str, theirs))
        return
    for key, row in mine.items():
        found = theirs[key]
        numbers = (found.value, found.standard_error, *found.interval(level)) if found.has_interval else (math.nan,) * 4
        for name, number in zip(("value", "error", "low", "high"), numbers, strict=True):
            shown = math.nan if row[name] is None else row[name]
            if not (math.isnan(shown) and math.isnan(number)) and not abs(shown - number) <= CLOSE * max(
                1, abs(number)
            ):
                yield key, name, shown, number
        if (row["note"] or None) != found.note and found.has_interval:
            yield key, "note", row["note"], found.note
