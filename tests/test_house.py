"""How the house is built: who may know what, and how the code is cut. Read from the source, not by running it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sfumato
from sfumato.audit.laws import LAWS
from sfumato.mechanisms import REGISTRY
from sfumato.shown.kinds import KINDS

ROOT = Path(sfumato.__file__).parent
NAMES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]

KNOWING_MECHANISMS = ("mechanisms/", "audit/laws/", "evaluate/", "cli/demo.py", "reproduce/")
"""Only these know a mechanism; everybody else asks the `Mechanism` for what it needs."""
KNOWING_KINDS = ("shown/", "mechanisms/", "audit/laws/")
"""Only `shown/` knows what kind of thing a record shows; a mechanism and its law say which kind theirs is."""

WITH_HIERARCHIES = ("request/hierarchy.py", "release/entries.py", "audit/original.py", "cli/render.py")
"""These read and write the levels of a hierarchy, by a key that a mechanism is called by too."""

ROOMS = {each.plan.__module__.removeprefix("sfumato.mechanisms.").split(".")[0] for each in REGISTRY.values()} | {
    "coins"
}
MOST_ONE_CALLER = 0.18


@cache
def modules() -> dict[str, ast.Module]:
    """What is written in every module; read when the first test asks."""
    return {name: ast.parse((ROOT / name).read_text()) for name in NAMES}


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module, or name of a module, that a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def constants(tree: ast.Module) -> Iterator[str]:
    """Every string constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def strangers(knowing: tuple[str, ...]) -> dict[str, ast.Module]:
    """The modules that are not among those that may know."""
    return {name: tree for name, tree in modules().items() if not name.startswith(knowing)}


def test_only_mechanisms_and_their_laws_know_a_mechanism() -> None:
    rooms = tuple(f"sfumato.mechanisms.{room}" for room in ROOMS)
    for name, tree in strangers(KNOWING_MECHANISMS).items():
        # A kind of record has the name of a mechanism; and what hierarchies have is called levels, where it is written.
        alike = {"buckets"} if name.startswith("shown/") else {"levels"} if name in WITH_HIERARCHIES else set()
        named = set(REGISTRY) - alike
        assert not named & set(constants(tree)), f"{name} names a mechanism"
        assert not [each for each in imports(tree) if each.startswith(rooms)], f"{name} imports a mechanism"


def test_only_shown_knows_what_kind_of_thing_a_record_shows() -> None:
    homes = tuple(kind.__module__ for kind in KINDS)
    for name, tree in strangers(KNOWING_KINDS).items():
        assert not [each for each in imports(tree) if each.startswith(homes)], f"{name} imports a kind of record"


def test_nobody_asks_a_mechanism_or_a_record_what_it_is() -> None:
    kinds = {kind.__name__ for kind in KINDS}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
                assert not asked & kinds, f"{name}:{node.lineno}"


def test_rule_would_notice_who_knows_too_much() -> None:
    tree = ast.parse("from sfumato.mechanisms import uniform\nname = 'subset'")
    assert "sfumato.mechanisms.uniform" in set(imports(tree))
    assert "subset" in set(constants(tree))


def test_every_mechanism_has_a_law_and_every_law_a_mechanism() -> None:
    assert set(LAWS) == set(REGISTRY)
    for name, law in LAWS.items():
        assert law.guarantees[0] == REGISTRY[name].guarantee


def test_laws_use_no_code_of_the_mechanisms() -> None:
    for name, tree in modules().items():
        if name.startswith("audit/laws/") and name != "audit/laws/__init__.py":  # which knows the registry
            assert not [each for each in imports(tree) if each.startswith("sfumato.mechanisms")], name


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def uses(tree: ast.Module) -> Counter[str]:
    """How often each name is used in a module, by itself or as an attribute."""
    names = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return names + Counter(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def one_caller(tree: ast.Module) -> list[str]:
    """The private functions of a module that exactly one place calls."""
    called = uses(tree)
    private = (each.name for each in functions(tree) if each.name.startswith("_") and not each.name.startswith("__"))
    return [name for name in private if called[name] == 1]


def test_functions_earn_their_names_by_an_idea_or_a_second_caller() -> None:
    """Private functions with one caller make a reader jump: few of all functions are such, as in the best of the field.

    The share is printed by name where it is too large: inline what has no idea of its own.
    """
    found = {name: one_caller(tree) for name, tree in modules().items()}
    number = sum(len(list(functions(tree))) for tree in modules().values())
    share = sum(map(len, found.values())) / number
    most = sorted(found.items(), key=lambda item: -len(item[1]))[:8]
    assert share <= MOST_ONE_CALLER, f"{share:.1%} of {number}: {most}"


def test_one_caller_is_counted() -> None:
    tree = ast.parse("def _a(): pass\ndef _b(): _a()\ndef c(): _b(); _b()")
    assert one_caller(tree) == ["_a"]


LENGTHS = {"src": 450, "function": 60}


@pytest.mark.parametrize("name", NAMES)
def test_modules_and_functions_are_short_enough_to_be_read(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= LENGTHS["src"]
    for node in functions(modules()[name]):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
        assert length <= LENGTHS["function"], f"{name}: {node.name}"


def test_class_names_have_one_meaning() -> None:
    """Every room has its Plan, Design and Options; no other class name stands twice."""
    shared = {"Plan", "Design", "Options"}
    names = Counter(node.name for tree in modules().values() for node in tree.body if isinstance(node, ast.ClassDef))
    assert not [name for name, number in names.items() if number > 1 and name not in shared]
