"""How the house is built: who may know what, and how the code is cut. Read from the source, not by running it."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import papers
import sfumato
from sfumato._records.encoding_registry import ENCODINGS
from sfumato._verify.distributions import REFERENCE_DISTRIBUTIONS
from sfumato.cli.app import build
from sfumato.cli.flags import name_flags
from sfumato.mechanisms import REGISTRY

ROOT = Path(sfumato.__file__).parent
PAPERS = Path(papers.__file__).parent
NAMES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]

KNOWING_MECHANISMS = ("mechanisms/", "_verify/distributions/", "cli/demo.py")
"""Only these know a mechanism; everybody else asks the `Mechanism` for what it needs."""
KNOWING_KINDS = ("_records/", "mechanisms/", "_verify/distributions/")
"""Only `_records/` knows what kind of thing a record shows; a mechanism and its law say which kind theirs is."""

WITH_HIERARCHIES = (
    "_request/hierarchy.py",
    "_release/manifest_entries.py",
    "_verify/against_original.py",
    "_commands/release_commands.py",
    "cli/render.py",
)
"""These read and write the levels of a hierarchy, by a key that a mechanism is called by too."""

ROOMS = {each.plan.__module__.removeprefix("sfumato.mechanisms.").split(".")[0] for each in REGISTRY.values()} | {
    "coins"
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """What a module says, of all that is written in it: a tree of each of them would be a million objects."""

    lines: int
    imports: frozenset[str]
    """Every module, or name of a module, that it imports."""
    constants: frozenset[str]
    """Every string."""
    functions: list[tuple[str, int]]
    """Each function, and how many lines it has without its docstring."""
    classes: list[str]
    """The classes that stand by themselves."""
    asked: dict[int, set[str]]
    """The names that `isinstance` asks for, by line."""


def read(text: str) -> Module:
    """What a module says whose source this is."""
    tree = ast.parse(text)
    nodes = defaultdict(list)
    for node in ast.walk(tree):
        nodes[type(node)].append(node)
    return Module(
        lines=len(text.splitlines()),
        imports=frozenset(_imports([*nodes[ast.Import], *nodes[ast.ImportFrom]])),
        constants=frozenset(node.value for node in nodes[ast.Constant] if isinstance(node.value, str)),
        functions=[(node.name, _length(node)) for kind in FUNCTIONS for node in nodes[kind]],
        classes=[node.name for node in tree.body if isinstance(node, ast.ClassDef)],
        asked={
            node.lineno: {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            for node in nodes[ast.Call]
            if isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        },
    )


def _imports(nodes: Sequence[ast.Import | ast.ImportFrom]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


@cache
def modules() -> dict[str, Module]:
    """What every module says; read when the first test asks."""
    return {name: read((ROOT / name).read_text()) for name in NAMES}


def strangers(knowing: tuple[str, ...]) -> dict[str, Module]:
    """The modules that are not among those that may know."""
    return {name: module for name, module in modules().items() if not name.startswith(knowing)}


def test_only_mechanisms_and_their_laws_know_a_mechanism() -> None:
    rooms = tuple(f"sfumato.mechanisms.{room}" for room in ROOMS)
    for name, module in strangers(KNOWING_MECHANISMS).items():
        # A kind of record has the name of a mechanism; and what hierarchies have is called levels, where it is written.
        alike = {"buckets"} if name.startswith("_records/") else {"levels"} if name in WITH_HIERARCHIES else set()
        named = set(REGISTRY) - alike
        assert not named & module.constants, f"{name} names a mechanism"
        assert not [each for each in module.imports if each.startswith(rooms)], f"{name} imports a mechanism"


def test_only_shown_knows_what_kind_of_thing_a_record_shows() -> None:
    homes = tuple(kind.__module__ for kind in ENCODINGS)
    for name, module in strangers(KNOWING_KINDS).items():
        assert not [each for each in module.imports if each.startswith(homes)], f"{name} imports a kind of record"


def test_nobody_asks_a_mechanism_or_a_record_what_it_is() -> None:
    kinds = {kind.__name__ for kind in ENCODINGS}
    for name, module in modules().items():
        for line, asked in module.asked.items():
            assert not asked & kinds, f"{name}:{line}"


def test_rule_would_notice_who_knows_too_much() -> None:
    module = read(
        "from sfumato.mechanisms._randomized_response import uniform_mechanism\n"
        "name = 'subset'\nisinstance(name, Sets | Values)"
    )
    assert "sfumato.mechanisms._randomized_response.uniform_mechanism" in module.imports
    assert "subset" in module.constants
    assert module.asked == {3: {"Sets", "Values"}}


def test_every_mechanism_has_a_law_and_every_law_a_mechanism() -> None:
    assert set(REFERENCE_DISTRIBUTIONS) == set(REGISTRY)
    for name, law in REFERENCE_DISTRIBUTIONS.items():
        assert law.guarantees[0] == REGISTRY[name].guarantee


def test_laws_use_no_code_of_the_mechanisms() -> None:
    for name, module in modules().items():
        if (
            name.startswith("_verify/distributions/") and name != "_verify/distributions/__init__.py"
        ):  # which knows the registry
            assert not [each for each in module.imports if each.startswith("sfumato.mechanisms")], name


FLAG = re.compile(r"(?<!var\()(?<![\w{;-])--(?!upgrade\b)[a-z]")
"""An option of the command line; a variable of CSS and `pip install --upgrade` are none."""
ARGUMENT = re.compile(r"`([a-z_]+)=")


@cache
def options() -> frozenset[str]:
    """The options of all commands."""
    commands = build().commands.values()
    return frozenset(name for command in commands for parameter in command.params for name in parameter.opts)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("cli/")])
def test_only_the_command_line_names_its_options(name: str) -> None:
    """Messages name arguments, which the command line turns into options."""
    assert not [text for text in modules()[name].constants if FLAG.search(text)]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("cli/")])
def test_every_argument_in_a_message_is_an_option(name: str) -> None:
    """`spec=` alone is none: its options follow from the kind of request."""
    arguments = {argument for text in modules()[name].constants for argument in ARGUMENT.findall(text)} - {"spec"}
    assert {name_flags(f"`{argument}=`") for argument in arguments} <= options()


def test_rule_would_notice_an_option_in_a_message() -> None:
    assert all(map(FLAG.search, ("drop it (--drop x).", "--force", "ask for `--json`", "in '--json'")))
    assert not any(map(FLAG.search, ("color:var(--ink)", ".grey{--c:1;--d:2}", "(pip install --upgrade x)", "a--b")))


def test_functions_are_measured_without_what_is_said_of_them() -> None:
    module = read(
        'def told():\n    """Say.\n\n    More.\n    """\n    one = 1\n    return one\n\n\nasync def no(): pass\n'
    )
    assert (module.lines, module.functions) == (10, [("told", 2), ("no", 1)])


LENGTHS = {"src": 500, "function": 60}


@pytest.mark.parametrize("name", NAMES)
def test_modules_and_functions_are_short_enough_to_be_read(name: str) -> None:
    module = modules()[name]
    assert module.lines <= LENGTHS["src"]
    assert not [function for function, lines in module.functions if lines > LENGTHS["function"]]


@pytest.mark.parametrize("path", sorted(PAPERS.rglob("*.py")), ids=lambda path: path.relative_to(PAPERS).as_posix())
def test_modules_of_papers_are_short_enough_to_be_read(path: Path) -> None:
    module = read(path.read_text())
    assert module.lines <= LENGTHS["src"]
    assert not [function for function, lines in module.functions if lines > LENGTHS["function"]]


def test_class_names_have_one_meaning() -> None:
    """Every room has its Plan, Design and Options; no other class name stands twice."""
    shared = {"Plan", "Design", "Options"}
    names = Counter(name for module in modules().values() for name in module.classes)
    assert not [name for name, number in names.items() if number > 1 and name not in shared]
