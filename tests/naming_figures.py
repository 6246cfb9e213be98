"""Prints figures about names and sizes in `src`, beside those of well-kept libraries: `python tests/naming_figures.py`.

The figures are for looking at. No test pins them, and a good name beats a good figure.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

SOURCE = Path(__file__).parent.parent / "src" / "sfumato"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

IRREGULAR = frozenset(
    """
    begun borne bought bound broken brought built caught chosen cut dealt done drawn driven fallen felt forgotten
    fought found frozen given gone gotten grown heard held hidden hit kept known laid led left lent lost made meant
    met paid proven put read run said seen sent set shown shut sold sorted spelt spent split spoilt spread stood
    struck taken taught thought thrown told torn understood unheard won worn written
    """.split()  # noqa: SIM905 - a list of one word a line would be hundreds of lines
)
"""Irregular past participles; those that are also plain verbs (`read`, `split`) count as verbs."""

VERBS = frozenset(
    """
    accept add adapt adjust aggregate align allocate amplify analyse append apply arrange ask assert assign attach
    attack audit balance begin bin bind bound branch bring build calibrate call cancel cap cast check choose claim
    classify clean clear clip close coarsen code collect combine compare compile complete compose compress compute
    concatenate confirm connect convert copy correct count cover create cut deal decide declare decode decompress
    deduplicate define delete demonstrate deny derive describe design detach detect digest disclose display divide
    download draft draw drop dump encode end ensure enumerate escape estimate evaluate examine exchange exclude
    execute expand explain export express extend extract fail fetch fill filter find finish fit fix flatten fold
    follow forget format free gather generate get grant group guard guess handle hash hide histogram hold identify
    import include index infer init inline insert inspect install integrate interpolate intersect invert invoke is
    iter iterate join keep label launch lay layout learn limit link lint list load localise lock log look lookup
    mail make map mark mask match materialise maximise mean measure merge migrate minimise modify move multiply mute
    name narrow normalise note notice number observe omit open optimise order pack pad page parse partition pass
    paste perturb place plan plot pool pose post predict prepare print produce profile project propose protect prove
    publish pull push put query quote raise randomise rank read rebuild record recode recover reduce refine refuse
    register regroup reject relax release remark remember remove rename render reorder repeat replace report
    reproduce request require reserve reset reshape resolve restore retry return reverse revoke rewrite round run
    sample save scale scan score search select send serialise set settle share shift shorten show shrink shuffle
    sign simplify simulate skip slice smooth solve sort spell split spool spread stack start state step stop store
    stream strip subtract suggest sum summarise suppress survey swap sync take tally test tile to total trace track
    train transform translate transpose trim truncate try turn unpack unquote unrank unwrap update upload use
    validate verify view visit wait walk warn weigh wrap write yield
    """.split()  # noqa: SIM905 - a list of one word a line would be hundreds of lines
)
QUESTIONS = frozenset(
    """
    is has can may must needs are was were does should accepts allows contains
    """.split()  # noqa: SIM905 - a list of one word a line would be hundreds of lines
)

ANCHORS = {
    "participle": "0 to 4.4%",
    "placeholder": "at most 0.1%",
    "verb": "27 to 73%",
    "twice": "few",
    "length": "3 to 9, p90 under 40",
    "one-caller": "",
    "docstring": "",
}


@dataclass(frozen=True)
class Named:
    """One name in a module, with where it is."""

    place: str
    name: str


@dataclass(frozen=True)
class ModuleNames:
    """The names in one module that the figures look at."""

    path: Path
    lines: int
    functions: list[Named]
    """Functions and methods that are not properties and not special to Python."""
    top_functions: list[Named]
    variables: list[Named]
    """Local variables, each once a function."""
    docstrings: list[str]
    lengths: list[int]
    uses: Counter[str]


def read_names(path: Path) -> ModuleNames:
    """Reads the names of one module from its source."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
    return ModuleNames(
        path=path,
        lines=text.count("\n"),
        functions=[Named(_place(path, node), node.name) for node in functions if _is_named_freely(node)],
        top_functions=[
            Named(_place(path, node), node.name)
            for node in tree.body
            if isinstance(node, FUNCTIONS) and not node.name.startswith("__")
        ],
        variables=[Named(_place(path, node), name) for node in functions for name in _local_names(node)],
        docstrings=[
            doc
            for node in nodes
            if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
            if (doc := ast.get_docstring(node))
        ],
        lengths=[_length(node) for node in functions],
        uses=Counter(
            [node.id for node in nodes if isinstance(node, ast.Name)]
            + [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        ),
    )


def _place(path: Path, node: ast.stmt) -> str:
    return f"{path.relative_to(SOURCE)}:{node.lineno}"


def _is_named_freely(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return not node.name.startswith("__") and not decorators & {
        "property",
        "cached_property",
        "functools.cached_property",
    }


def _local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {parameter.arg for parameter in parameters} - {"self", "cls"}


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def first_word(name: str) -> str:
    """The first word of a name in snake case, without leading underscores."""
    return name.lstrip("_").split("_")[0].lower()


def begins_with_verb(name: str) -> bool:
    """Whether a function's name begins with a verb in its plain form, or asks a question."""
    return first_word(name) in VERBS | QUESTIONS


def begins_with_participle(name: str) -> bool:
    """Whether a function's name begins with a past participle, as `told` or `merged_cells`."""
    word = first_word(name)
    return not begins_with_verb(name) and (word in IRREGULAR or bool(re.fullmatch(r"[a-z]{2,}[^e]ed", word)))


def is_placeholder(name: str) -> bool:
    """Whether a variable is called by one of the two words that say nothing."""
    return name in {"found", "each"}


def iter_lines(modules: list[ModuleNames]) -> Iterator[tuple[str, str, str]]:
    """Yields each figure: what it measures, ours, and that of well-kept libraries."""
    functions = [named for module in modules for named in module.functions]
    top_functions = [named for module in modules for named in module.top_functions]
    variables = [named for module in modules for named in module.variables]
    docstrings = [doc for module in modules for doc in module.docstrings]
    lengths = sorted(length for module in modules for length in module.lengths)
    names = Counter(module.path.stem for module in modules if module.path.stem != "__init__")
    one_caller = [
        named
        for module in modules
        for named in module.functions
        if named.name.startswith("_") and module.uses[named.name] == 1
    ]
    yield "modules", str(len(modules)), ""
    yield "lines", f"{sum(module.lines for module in modules):,}", ""
    yield "modules below 100 lines", str(sum(module.lines < 100 for module in modules)), ""
    yield "functions that begin with a participle", _share(begins_with_participle, functions), ANCHORS["participle"]
    yield "local variables called found or each", _share(is_placeholder, variables), ANCHORS["placeholder"]
    yield "module-level functions that begin with a verb", _share(begins_with_verb, top_functions), ANCHORS["verb"]
    yield "module names that stand twice or more", str(sum(number > 1 for number in names.values())), ANCHORS["twice"]
    yield (
        "docstrings that begin with a relative clause",
        _share_of(
            sum(bool(re.match(r"(What|How|Whether|Which|Where|Who|Whose)\b", doc)) for doc in docstrings),
            len(docstrings),
        ),
        ANCHORS["docstring"],
    )
    yield (
        "lines a function: median, p90, longest",
        (f"{median(lengths):.0f}, {lengths[len(lengths) * 9 // 10]}, {lengths[-1]}"),
        ANCHORS["length"],
    )
    yield "private functions with one caller", _share_of(len(one_caller), len(functions)), ANCHORS["one-caller"]


def _share(condition, named: list[Named]) -> str:
    return _share_of(sum(condition(item.name) for item in named), len(named))


def _share_of(number: int, total: int) -> str:
    return f"{number / total:.1%} of {total:,}"


def list_names(modules: list[ModuleNames]) -> Iterator[str]:
    """Yields every name that a figure counts against us, with its place."""
    for module in modules:
        for named in module.functions:
            if begins_with_participle(named.name):
                yield f"{named.place}\tparticiple\t{named.name}"
        for named in module.top_functions:
            if not begins_with_verb(named.name) and not begins_with_participle(named.name):
                yield f"{named.place}\tno verb\t{named.name}"
        for named in module.variables:
            if is_placeholder(named.name):
                yield f"{named.place}\tplaceholder\t{named.name}"


def main() -> None:
    """Prints the figures, or with `--list` the names behind them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the names that the figures count")
    parser.add_argument("--under", default="", help="only modules whose path below src/sfumato begins so")
    arguments = parser.parse_args()
    paths = [
        path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).as_posix().startswith(arguments.under)
    ]
    modules = [read_names(path) for path in paths]
    if arguments.list:
        print("\n".join(list_names(modules)))
    else:
        for what, ours, theirs in iter_lines(modules):
            print(f"{what:48}{ours:>22}   {theirs}")


if __name__ == "__main__":
    main()
