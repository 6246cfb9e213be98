"""The public names: what is listed here is promised, and a change of this list is a change of the promise."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from pathlib import Path

import pytest

import sfumato
import sfumato.typing
from sfumato.cli.app import build
from sfumato.errors import SfumatoError

NAMES = [
    "Answer",
    "Document",
    "Grade",
    "QuestionPage",
    "Attack",
    "Ranges",
    "BreachBound",
    "BreachBoundPerValue",
    "Certificate",
    "ChosenMechanism",
    "Comparison",
    "CountQuery",
    "DecisionError",
    "DecoyGroups",
    "Demonstration",
    "Description",
    "Diversity",
    "Dossier",
    "Engine",
    "EngineError",
    "ErrorAtCount",
    "Estimate",
    "Estimates",
    "ExportedFiles",
    "Finding",
    "Hierarchy",
    "Histogram",
    "InfeasibleError",
    "LintReport",
    "InternalError",
    "Interval",
    "Journal",
    "JournalEntry",
    "JournalOutcome",
    "LinearCap",
    "LocalEngine",
    "Measures",
    "MissingCapabilityError",
    "MissingExtraError",
    "Notice",
    "NoticeError",
    "NoticeWarning",
    "NullPolicy",
    "PublicationPlan",
    "PrivacySpec",
    "Publication",
    "QueryError",
    "Range",
    "ReadOptions",
    "Release",
    "ReleaseFormatError",
    "Request",
    "RequestDraft",
    "Role",
    "Schema",
    "SchemaError",
    "SfumatoError",
    "ShareCap",
    "SourceError",
    "SparkEngine",
    "SpecError",
    "TargetError",
    "Tolerance",
    "Verification",
    "audit",
    "bound_for_error",
    "certificate",
    "choose",
    "compare",
    "demo",
    "export",
    "info",
    "init",
    "lint",
    "measure",
    "page",
    "plan",
    "publish",
    "query",
    "read_journal",
    "verify",
]


def test_public_names_are_these() -> None:
    assert sorted(sfumato.__all__) == sorted(["__version__", *NAMES])


@pytest.mark.parametrize("name", NAMES)
def test_public_name_can_be_imported_and_is_documented(name: str) -> None:
    found = getattr(sfumato, name)
    assert inspect.getdoc(found)
    assert found.__module__.startswith("sfumato.")


def test_star_import_gives_the_public_names() -> None:
    scope: dict[str, object] = {}
    exec("from sfumato import *", scope)
    assert set(scope) - {"__builtins__"} == {"__version__", *NAMES}


def test_every_error_is_public() -> None:
    def tree(kind: type[SfumatoError]) -> set[str]:
        return {kind.__name__}.union(*map(tree, kind.__subclasses__()))

    # `NoBucketingError` knows values by their places only: planners turn it into an `InfeasibleError` that names them.
    assert tree(SfumatoError) - {"NoBucketingError"} == {name for name in NAMES if name.endswith("Error")}


def test_package_tells_what_it_is_for() -> None:
    assert sfumato.__doc__
    assert "publish" in sfumato.__doc__


def test_version_is_that_of_the_package() -> None:
    assert sfumato.__version__ == version("sfumato")


NAMED_OTHERWISE = {"journal": "read_journal"}
"""Functions whose command has a shorter name."""


@pytest.mark.parametrize("command", sorted(build().commands))
def test_every_command_is_one_public_function(command: str) -> None:
    assert inspect.isfunction(getattr(sfumato, NAMED_OTHERWISE.get(command, command)))


ELSEWHERE = {"Any", "Callable", "Collection", "Iterable", "Mapping", "None", "Path", "Sequence", "True", "False"}


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(getattr(sfumato, name))])
def test_every_type_of_a_public_function_is_public(name: str) -> None:
    types = set(re.findall(r"\b[A-Z]\w+", str(inspect.signature(getattr(sfumato, name)))))
    assert types <= {*NAMES, *sfumato.typing.__all__, *ELSEWHERE}


def test_every_other_module_is_private() -> None:
    folder = Path(sfumato.__file__).parent
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    public = {name for name in found if not name.startswith("_")}
    assert public == {"cli", "errors", "mechanisms", "typing"}
