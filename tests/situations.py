"""Seven situations of careless data stewards, and a steward who knows nothing but what the messages say."""

from __future__ import annotations

import json
import random
import re
import shlex
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_line import Outcome, run, write_csv

ROWS = 2000
PLACEHOLDER = "COL"
"""Stands for a column that only the steward knows."""
REQUEST = Path("request.toml")
PLAN_FILE = "private.plan"
REASON = "the board of the register agreed"
CODES = [f"{letter}{number:02d}.{number % 10}" for letter in "EFIJKM" for number in (10, 21, 33, 45, 50)]
DISEASES = ["asthma", "back pain", "COPD", "depression", "diabetes", "epilepsy", "gout", "HIV", "migraine", "psoriasis"]

Table = dict[str, list[Any]]
Option = tuple[str, str]
EACH_ROW = "# each_row_is_a_person = true"


# -------------------------------------------------------------------------------------------------------------- tables


def make_discharges(seed: int = 1) -> Table:
    """Discharges from a hospital with twenty diagnoses each."""
    chance = random.Random(seed)
    diagnoses = {f"DX{number}": chance.choices([*CODES, ""], k=ROWS) for number in range(2, 21)}
    first = chance.choices(CODES, k=ROWS)
    return {
        "age": [chance.randrange(18, 95) for _ in range(ROWS)],
        "sex": chance.choices("FM", k=ROWS),
        "weight": [chance.randrange(45, 120) for _ in range(ROWS)],
        "admitted": [f"2024-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}" for _ in range(ROWS)],
        "disposition": chance.choices(["home", "home care", "other hospital"], k=ROWS),
        "DRG": [300 + 7 * CODES.index(code) for code in first],
        "DX1": first,
        **diagnoses,
    }


def make_survey(seed: int = 2) -> Table:
    """A survey with forty answers of yes or no, of which some are intimate, and a number."""
    chance = random.Random(seed)
    intimate = ("hiv_test", "abortion", "drug_use", "depressed", "std")
    plain = [f"q{number}" for number in range(1, 36)]
    shares = {name: 0.1 if name in intimate else 0.01 for name in (*plain, *intimate)}
    return {
        "sex": chance.choices("FM", k=ROWS),
        "region": chance.choices(["north", "south"], k=ROWS),
        **{name: chance.choices(["yes", "no"], [share, 1 - share], k=ROWS) for name, share in shares.items()},
        "partners": [min(12, int(chance.expovariate(0.5))) for _ in range(ROWS)],
    }


def make_wages(seed: int = 3) -> Table:
    """Wages, most of which only one person has."""
    chance = random.Random(seed)
    return {
        "sex": chance.choices("FM", k=ROWS),
        "region": chance.choices(["north", "east", "south", "west"], k=ROWS),
        "wage": [round(chance.lognormvariate(10.3, 0.5)) for _ in range(ROWS)],
    }


def make_appointments(seed: int = 4) -> Table:
    """Appointments: people have several, and these are numbered."""
    chance = random.Random(seed)
    return {
        "appointment": list(range(1, ROWS + 1)),
        "patient": [50_000 + 13 * chance.randrange(ROWS // 2) for _ in range(ROWS)],
        "day": [f"2024-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}" for _ in range(ROWS)],
        "sex": chance.choices("FM", k=ROWS),
        "clinic": chance.choices(["A", "B", "C"], k=ROWS),
        "reason": chance.choices(DISEASES, k=ROWS),
    }


def make_registry(shares: Sequence[int], seed: int = 5) -> Table:
    """A registry of diseases with these shares, in percent."""
    chance = random.Random(seed)
    names = [*DISEASES, "tetanus"][: len(shares)]
    held = [disease for disease, share in zip(names, shares, strict=True) for _ in range(share * ROWS // 100)]
    chance.shuffle(held)
    return {
        "sex": chance.choices("FM", k=ROWS),
        "region": chance.choices(["north", "east", "south", "west"], k=ROWS),
        "disease": held,
    }


ANSWERS: Mapping[str, Sequence[str]] = {
    "smokes": ("yes", "no"),
    "drinks": ("yes", "no"),
    "sleeps": ("well", "badly"),
    "worries": ("never", "sometimes", "often"),
    "sport": ("none", "some", "much"),
}


def make_answers(seed: int = 6) -> Table:
    """A survey with five answers that are to be protected together."""
    chance = random.Random(seed)
    answers = {name: chance.choices(values, k=ROWS) for name, values in ANSWERS.items()}
    return {"sex": chance.choices("FM", k=ROWS), "region": chance.choices(["north", "south"], k=ROWS), **answers}


def make_dirty(seed: int = 7) -> Table:
    """What an office exports: numbers for missing values, spaces, several spellings, several forms of dates."""
    chance = random.Random(seed)
    return {
        "age": chance.choices([*range(20, 60), -9], [*[1] * 40, 4], k=ROWS),
        "visits": chance.choices([*range(12), 999], [*[3] * 12, 2], k=ROWS),
        "ward": chance.choices(["north", "south "], k=ROWS),
        "town": chance.choices(["Oslo", "OSLO", "Bergen"], k=ROWS),
        "cost": chance.choices(["1,234", "12,345", "120"], k=ROWS),
        "seen": chance.choices(["31.12.2024", "12/30/2024", "2024-12-29"], k=ROWS),
        "story": [f"came in with {row % 500} small pains" for row in range(ROWS)],
        "disease": chance.choices(DISEASES, k=ROWS),
    }


def tidy(table: Table) -> Table:
    """The dirty table after the remedies that `init` names."""
    days = {"31.12.2024": "2024-12-31", "12/30/2024": "2024-12-30"}
    return {
        **{name: values for name, values in table.items() if name != "story"},
        "age": ["" if age == -9 else age for age in table["age"]],
        "visits": ["" if visits == 999 else visits for visits in table["visits"]],
        "ward": [ward.strip() for ward in table["ward"]],
        "town": [town.capitalize() for town in table["town"]],
        "cost": [cost.replace(",", "") for cost in table["cost"]],
        "seen": [days.get(day, day) for day in table["seen"]],
    }


def shuffle_column(table: Table, *names: str) -> Table:
    """The same table with other sensitive values: those of other people."""
    order = random.Random(99).sample(range(ROWS), ROWS)
    return {**table, **{name: [table[name][row] for row in order] for name in names}}


# ------------------------------------------------------------------------------------------------------------- steward


@dataclass
class Steward:
    """A data steward who types what the messages say, and counts the commands.

    All that the steward knows besides is what no program can: which columns to publish although they look sensitive,
    which risks to accept, whether each row is a person, and the code books.
    """

    source: str
    """The table, or the request file."""
    options: list[str] = field(default_factory=list)
    """The options typed so far."""
    publishes: Collection[str] = ()
    """Columns to publish whatever a stop says."""
    accepts: Collection[str] = ()
    """The codes of stops to accept."""
    code_books: Mapping[str, Sequence[str]] = field(default_factory=dict)
    commands: int = 0
    codes: list[str] = field(default_factory=list)
    """The codes of everything that stopped the steward."""

    def run(self, *command: str) -> Outcome:
        """Runs a command without the decisions that other tests take for granted."""
        self.commands += 1
        return run(*command, is_decided=False)

    def draft(self, *options: str) -> Outcome:
        """Lets `init` draft a request file, and takes the first of the lines below each DECIDE."""
        outcome = self.run("init", self.source, *options, "--force", "--json")
        assert outcome.code == 0, outcome.err
        REQUEST.write_text(complete(REQUEST.read_text()))
        self.source = str(REQUEST)
        return outcome

    def publish(self, most: int = 8) -> Outcome:
        """Publishes: each refusal gives the next options."""
        for _ in range(most):
            assert not Path("release").exists()
            outcome = self.run("publish", self.source, *self.options, "--plan-file", PLAN_FILE, "--json")
            if outcome.code == 0:
                return outcome
            assert outcome.code == 2, outcome.err
            error = outcome.json["error"]
            for stop in error.get("stops", ()):
                self.codes.append(stop["code"])
                self.type(self.choose(stop))
            if "stops" not in error:
                self.codes.append(error["code"])
                self.type(list_options(error["message"]))
        raise AssertionError(self.codes)

    def choose(self, stop: Mapping[str, Any]) -> list[Option]:
        """The options of a stop's ways out: to accept what the steward wants, and otherwise to leave columns out."""
        ways = [options for way in stop["ways_out"] if (options := list_options(way))]
        accepting = [options for options in ways if options[0][0].startswith("--accept")]
        if "columns" not in stop:
            return accepting[0] if stop["code"] in self.accepts else ways[0]
        dropping = next(options for options in ways if options[0][0] == "--drop")
        wanted = [name for name in stop["columns"] if name in self.publishes]
        others = [option for option in dropping if option[1] not in wanted]
        if stop["code"] == "columns-undecided":
            return [*(("--public", name) for name in wanted), *others]
        return [*others, *(option for option in accepting[0] if option[1].partition("=")[0] in wanted)]

    def type(self, options: Sequence[Option]) -> None:
        """Adds options, in place of earlier ones about the same; fills in what stands in capitals."""
        assert options, self.codes
        if self.source == str(REQUEST):
            write_options(REQUEST, [(name, value.replace("REASON", REASON)) for name, value in options])
            return
        for name, value in options:
            column = value.partition("=")[0]
            if name in ROLES:  # a column has one role: the last one
                for place in [at for at, option in enumerate(self.options) if option == value][::-1]:
                    if self.options[place - 1] in ROLES:
                        self._remove(place - 1)
            for place in [number for number, option in enumerate(self.options) if option == name][::-1]:
                is_same_column = self.options[place + 1].partition("=")[0] == column
                if name in ("--prior", "--posterior") or (name == "--ranges" and is_same_column):
                    self._remove(place)
            if name == "--domain":
                Path(f"{column}.txt").write_text("\n".join(self.code_books[column]) + "\n")
            self.options += [name, value.replace("FILE", f"{column}.txt").replace("REASON", REASON)]

    def _remove(self, place: int) -> None:
        del self.options[place : place + 2]

    def verify(self, original: str) -> Outcome:
        """Verifies the release against the table."""
        outcome = self.run("verify", "release", "--original", original, "--plan-file", PLAN_FILE, "--json")
        assert outcome.code == 0, outcome.err
        assert outcome.json["passed"]
        return outcome


OPTION = re.compile(r"""(?<![\w'"])(?P<name>--[a-z-]+) (?P<value>(?:'[^']*'|"[^"]*"|[^\s'"])+)""")
KEY = re.compile(r"""(?<![\w'"\[])(?P<name>\w+|"[^"]+") = (?P<value>\[[^\]]*\]|"[^"]*"|true)""")
ADDED = re.compile(r"""add (?P<values>"[^"]*"(?:, "[^"]*")*) to (?P<name>\w+)""")
SECTION = re.compile(r" in \[(\w+)\]")
FILLERS = ("and", "with", "or", "for", "in", PLACEHOLDER)
"""What may follow an option that is named without a value."""
ROLES = ("--public", "--drop", "--identifier")
LISTS = (*ROLES, "--accept-disclosing")
COLUMN_SECTIONS = {"ranges": "--ranges", "domains": "--domain", "accept_disclosing": "--accept-disclosing"}
"""The option of each section of a request file that has a line for each column."""


def list_options(sentence: str) -> list[Option]:
    """The options with their values that a sentence tells to type, or that mean the same as keys of a request file.

    A list is one option for each of its items.
    """
    typed = [(match["name"], shlex.split(match["value"].rstrip(".,;)"))[0]) for match in OPTION.finditer(sentence)]
    options = [
        (name, item) for name, value in typed for item in (value.split(",") if name in LISTS else [value]) if item
    ]
    return [(name, value) for name, value in [*options, *list_keys(sentence)] if value not in FILLERS]


def list_keys(sentence: str) -> list[Option]:
    """The keys of a request file that a sentence tells to write, as options. A section is named after its keys."""
    options, parts = [], SECTION.split(sentence)
    for text, section in zip(parts[::2], parts[1::2], strict=False):
        for match in ADDED.finditer(text):
            values = tomllib.loads(f"values = [{match['values']}]")["values"]
            options += [(f"--{match['name'].replace('_', '-')}", str(value)) for value in values]
        for match in KEY.finditer(text):
            value = tomllib.loads(f"value = {match['value']}")["value"]
            key, name = match["name"].strip('"'), f"--{match['name'].replace('_', '-')}"
            if section in COLUMN_SECTIONS:
                options.append((COLUMN_SECTIONS[section], f"{key}={value}"))
            else:
                options += [(name, str(item)) for item in (value if isinstance(value, list) else [value])]
    return options


def write_options(request: Path, options: Sequence[Option]) -> None:
    """Writes options into a request file. A column leaves the list of its earlier role."""
    sections = tomllib.loads(request.read_text())
    for name, value in options:
        key = name.removeprefix("--").replace("-", "_")
        if name in ROLES:
            for role in ROLES:
                columns = sections["columns"].get(role.removeprefix("--"), [])
                sections["columns"][role.removeprefix("--")] = [column for column in columns if column != value]
            sections["columns"][key].append(value)
        elif name in COLUMN_SECTIONS.values():
            section = {option: section for section, option in COLUMN_SECTIONS.items()}[name]
            column, _, entry = value.partition("=")
            sections.setdefault(section, {})[column] = entry
        else:
            sections["protection"][key] = value
    lines = [
        f"[{section}]\n" + "".join(f"{json.dumps(key)} = {to_toml(value)}\n" for key, value in keys.items())
        for section, keys in sections.items()
    ]
    request.write_text("\n".join(lines))


def to_toml(value: Any) -> str:
    """A value of a request file as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def complete(text: str) -> str:
    """A request file without the sign of a comment before the first setting below each DECIDE.

    Where no column identifies a person, each row is one. What to do with columns that look sensitive stays open.
    """
    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        starts = [number for number, line in enumerate(lines) if line.startswith("# DECIDE")]
        proposed = [number for number, line in enumerate(lines) if re.fullmatch(r"# \w+ = .*", line)]
        places = [number for number in proposed if lines[number] == EACH_ROW] or proposed
        if starts and places:
            lines[places[0]] = lines[places[0]].removeprefix("# ")
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def write(table: Table, name: str = "table.csv") -> str:
    """Writes a table as CSV, and returns its name."""
    write_csv(Path(name), table)
    return name
