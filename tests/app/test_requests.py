"""Requests for mechanisms that make no sense: each is one sentence, exits with 2, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import succeed, write_csv
from protected_tables import BOUND, SMALL_DOMAIN, counts_file, refused

TOLERANCE = ("--tolerance", "2")
WRONG = "the bound of 'flu' in 'bounds.csv' is wrong: "


@pytest.fixture
def table(desk: Path) -> Path:
    diseases = ["flu", "cold", "HIV", "gout", "asthma", "flu"]
    return write_csv(desk / "people.csv", {"sex": ["F", "M", "M", "F"] * 150, "disease": diseases * 100})


def publishing(table: Path, *options: str) -> list[str]:
    return ["publish", str(table), "--out", "release", "--sensitive", "disease", "--plan-file", "plan.json", *options]


def planning(table: Path, *options: str) -> list[str]:
    return ["plan", str(table), "--sensitive", "disease", *options]


Command = Callable[..., list[str]]
commands = pytest.mark.parametrize("command", [publishing, planning], ids=["publish", "plan"])

# ----------------------------------------------------------------------------------------------------------- mechanisms


OPTIONS = {
    "small-domain": [["--min-cell", "10"], ["--publish-shares"]],
    "subset": [["--subset-form", "bits"], ["--subset-form", "list"], ["--subset-form", "columns"]],
    "levels": [["--levels", "code=4/5,chapter=1/5"], ["--importance", "code=1,chapter=3"]],
    "fine-grain": [["--direction", "upward"], ["--objective", "record"]],
}


@commands
@pytest.mark.parametrize("mechanism", ["uniform", "subset", "small-domain", "fine-grain"])
def test_options_of_another_mechanism_are_refused(desk: Path, table: Path, command: Command, mechanism: str) -> None:
    asked = TOLERANCE if mechanism == "fine-grain" else BOUND
    for owner in OPTIONS.keys() - {mechanism}:
        for options in OPTIONS[owner]:
            sentence = refused(desk, *command(table, "--mechanism", mechanism, *options, *asked))
            assert sentence == (
                f"options of {owner!r} were given, but the mechanism is {mechanism!r}; remove the options, or "
                f"name the other mechanism."
            )


@commands
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--mechanism", "magic"],
            "the mechanism 'magic' is unknown; the known mechanisms are auto, uniform, subset, levels, ",
        ),
        (["--mechanism", ""], "the mechanism '' is unknown; the known mechanisms are auto, "),
        (["--mechanism", "Uniform"], "the mechanism 'Uniform' is unknown; the known mechanisms are auto, "),
        (["--guarantee", "magic"], "the guarantee 'magic' is unknown; ask for any-prior or marginal-prior."),
        (
            ["--mechanism", "small-domain", "--guarantee", "any-prior"],
            "the mechanism 'small-domain' gives only marginal-prior, and any-prior was requested; choose another ",
        ),
        (["--mechanism", "fine-grain"], "the mechanism 'fine-grain' needs a bound for each value (--bounds or "),
        (["--direction", "magic"], "invalid value for '--direction': "),
        (["--direction", "down"], "invalid value for '--direction': "),
        (["--objective", "all"], "invalid value for '--objective': "),
        (["--subset-form", "text"], "invalid value for '--subset-form': "),
        (["--min-cell", "-1"], "invalid value for '--min-cell': "),
        (["--min-cell", "many"], "invalid value for '--min-cell': "),
    ],
)
def test_names_that_are_unknown_are_refused(
    desk: Path, table: Path, command: Command, options: list[str], words: str
) -> None:
    assert refused(desk, *command(table, *BOUND, *options)).startswith(words)


@commands
@pytest.mark.parametrize("mechanism", ["small-domain"])
def test_one_bound_is_what_some_mechanisms_need(desk: Path, table: Path, command: Command, mechanism: str) -> None:
    sentence = refused(desk, *command(table, "--mechanism", mechanism, *TOLERANCE))
    assert sentence == (
        f"the mechanism {mechanism!r} needs one bound (--prior with --posterior), and the request is of another kind."
    )


def test_method_that_is_unknown_is_refused_before_anything_is_counted(desk: Path) -> None:
    sentence = refused(desk, "query", desk / "nothing", "SELECT COUNT(*) FROM release", "--method", "magic")
    assert sentence.endswith("does not exist; name the directory or .zip of a release.")


# ------------------------------------------------------------------------------------------------------------- requests


@commands
@pytest.mark.parametrize(
    ("options", "pair"),
    [
        ([*BOUND, *TOLERANCE], "--prior with --posterior, and --tolerance"),
        ([*BOUND, "--bounds", "bounds.csv"], "--prior with --posterior, and --bounds"),
        (["--prior", "1/3", *TOLERANCE], "--prior with --posterior, and --tolerance"),
        ([*TOLERANCE, "--bounds", "bounds.csv"], "--bounds, and --tolerance"),
    ],
)
def test_two_kinds_of_request_are_refused(
    desk: Path, table: Path, command: Command, options: list[str], pair: str
) -> None:
    sentence = refused(desk, *command(table, *options))
    assert sentence == f"two kinds of request were given: {pair}. Choose one of them."


@commands
@pytest.mark.parametrize(
    ("tolerance", "words"),
    [
        ("1", "the tolerance is 1 and must be above 1. The tolerance is the factor by which an attacker's confidence"),
        ("0.99", "the tolerance is 99/100 and must be above 1. "),
        ("0", "the tolerance is 0 and must be above 1. "),
        ("-3", "the tolerance is -3 and must be above 1. "),
        ("twice", "the tolerance is 'twice': write a number such as 1/13, 0.02, 2% or 3."),
        ("nan", "the tolerance is 'nan': write a number such as 1/13, 0.02, 2% or 3."),
        ("1e9999", "the tolerance is '1e9999': write a number such as 1/13, 0.02, 2% or 3."),
    ],
)
def test_tolerance_that_allows_nothing_is_refused(
    desk: Path, table: Path, command: Command, tolerance: str, words: str
) -> None:
    assert refused(desk, *command(table, f"--tolerance={tolerance}")).startswith(words)


@commands
def test_tolerance_that_protects_nothing_is_refused(desk: Path, table: Path, command: Command) -> None:
    """Every share of at least a hundredth is certain if it may rise a hundred times."""
    sentence = refused(desk, *command(table, "--tolerance", "100"))
    assert sentence == (
        "with a tolerance of 100 an attacker may become certain of every value, so nothing would "
        "be protected. Choose a smaller tolerance."
    )


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("2", "--breach-limit 2 must be a share between 0 and 1."),
        ("-1/100", "--breach-limit -1/100 must be a share between 0 and 1."),
        ("150%", "--breach-limit 3/2 must be a share between 0 and 1."),
        ("1/3%", "the breach limit is '1/3%': write a number such as 1/13, 0.02, 2% or 3."),
        ("", "the breach limit is '': write a number such as 1/13, 0.02, 2% or 3."),
    ],
)
@pytest.mark.parametrize("mechanism", ["small-domain", "uniform"])
def test_breach_limit_that_is_no_share_is_refused(
    desk: Path, table: Path, mechanism: str, limit: str, words: str
) -> None:
    asked = publishing(table, "--mechanism", mechanism, *BOUND, f"--breach-limit={limit}")
    assert refused(desk, *asked) == words


# ----------------------------------------------------------------------------------------------- a bound for each value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "'bounds.csv' names no value; write a line for each value to protect."),
        (b"value,prior,posterior\n", "'bounds.csv' names no value; write a line for each value to protect."),
        (b"value,prior\nflu,1/3\n", "'bounds.csv' must have the columns value, prior, posterior."),
        (b"disease,prior,posterior\nflu,1/3,1/2\n", "'bounds.csv' must have the columns value, prior, posterior."),
        (b"value,prior,posterior\nflu,1/3\n", "'bounds.csv' must have the columns value, prior, posterior."),
        (b"flu,1/3,1/2\ncold,1/3,1/2\n", "'bounds.csv' must have the columns value, prior, posterior."),
        (
            b"value,prior,posterior\nflu,often,1/2\n",
            WRONG + "the prior is 'often': write a number such as 1/13, 0.02, 2% or 3.",
        ),
        (
            b"value,prior,posterior\nflu,1/3,\n",
            WRONG + "the posterior is '': write a number such as 1/13, 0.02, 2% or 3.",
        ),
        (b"value,prior,posterior\nflu,1/3,1/2\nflu,1/3,2/3\n", "'bounds.csv' has two lines for 'flu'; write only one."),
        (b"value,prior,posterior\n,1/3,1/2\n,1/3,1/2\n", "'bounds.csv' has two lines for '(missing)'; write only one."),
        (
            b"value,prior,posterior\nplague,1/9,1/2\nflu,1/9,1/2\n",
            "there is a bound for a value that is not in the domain: 'plague'; correct it.",
        ),
        (
            b"value,prior,posterior\n,1/9,1/2\n",
            "there is a bound for a value that is not in the domain: '(missing)'; correct it.",
        ),
        (
            b"value,prior,posterior\nflu ,1/9,1/2\n",
            "there is a bound for a value that is not in the domain: 'flu '; correct it.",
        ),
        (
            b"value,prior,posterior\nflu,1/2,1/3\n",
            WRONG + "the prior 1/2 must be below the posterior 1/3. The bound limits how ",
        ),
        (
            b"value,prior,posterior\nflu,1/2,1/2\n",
            WRONG + "the prior 1/2 must be below the posterior 1/2. The bound limits how ",
        ),
        (b"value,prior,posterior\nflu,1/2,1\n", WRONG + "the posterior is 1 and must be below 1. "),
        (b"value,prior,posterior\nflu,0,1/2\n", WRONG + "the prior is 0 and must be above 0. "),
        (b"value,prior,posterior\ng\xf6ut,1/9,1/2\n", "'bounds.csv' is not UTF-8 text; save it as UTF-8."),
        (
            b"value,prior,posterior\n" + b"x" * 200_000 + b",1/9,1/2\n",
            "'bounds.csv' must have the columns value, prior, posterior.",
        ),
    ],
    ids=[
        "empty",
        "header only",
        "no posterior",
        "no value",
        "short line",
        "no header",
        "no number",
        "empty number",
        "twice",
        "missing twice",
        "unknown",
        "missing unknown",
        "space",
        "falling",
        "level",
        "certain",
        "zero",
        "latin-1",
        "endless",
    ],
)
def test_broken_file_of_bounds_is_refused(desk: Path, table: Path, text: bytes, words: str) -> None:
    (desk / "bounds.csv").write_bytes(text)
    assert refused(desk, *publishing(table, "--bounds", "bounds.csv")).startswith(words)


def test_file_of_bounds_that_cannot_be_read_is_refused(desk: Path, table: Path) -> None:
    asked = publishing(table, "--bounds")
    assert refused(desk, *asked, "missing.csv") == "'missing.csv' cannot be read: No such file or directory."
    assert refused(desk, *asked, ".") == "'.' cannot be read: Is a directory."


def test_bounds_may_have_a_byte_order_mark_spaces_and_more_columns(desk: Path) -> None:
    """What a spreadsheet makes of it."""
    file = counts_file(desk, {"flu": 100, "cold": 100, "gout": 200})
    (desk / "bounds.csv").write_text("\ufeffprior,note,value,posterior\r\n 1/5 ,x,flu, 0.5\r\n", encoding="utf-8")
    plan = succeed("plan", "--counts", file, "--bounds", "bounds.csv", "--json").json
    assert plan["amplification"] == {"flu": "4/1", "cold": None, "gout": None}


# -------------------------------------------------------------------------------------------- tables that cannot be met


@commands
def test_table_of_frequent_values_has_nothing_to_protect_in_cells(desk: Path, table: Path, command: Command) -> None:
    sentence = refused(desk, *command(table, "--mechanism", "small-domain", "--prior", "1/100", "--posterior", "1/2"))
    assert sentence == (
        "every value that occurs has a share of the records above the prior 1/100, so no value would be protected; "
        "choose a prior above the shares of the values to protect."
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (SMALL_DOMAIN, "every value that occurs has a share of the records above the prior 1/3"),
        (
            ("--mechanism", "subset", *BOUND),
            "the sensitive column has only one value, so no other value can replace it",
        ),
        (TOLERANCE, "with a tolerance of 2 an attacker may become certain of every value"),
    ],
    ids=["small-domain", "subset", "fine-grain"],
)
def test_column_of_one_value_is_refused(desk: Path, options: tuple[str, ...], words: str) -> None:
    table = write_csv(desk / "t.csv", {"sex": ["F", "M"] * 100, "disease": ["flu"] * 200})
    assert refused(desk, *publishing(table, *options)).startswith(words)


@commands
def test_posterior_next_to_the_prior_is_refused(desk: Path, table: Path, command: Command) -> None:
    prior, posterior = "1/5", f"{10**30 + 1}/{5 * 10**30}"
    for mechanism in ("uniform", "subset"):
        sentence = refused(
            desk, *command(table, "--mechanism", mechanism, f"--prior={prior}", f"--posterior={posterior}")
        )
        assert sentence.startswith(f"the posterior {posterior} is too close to the prior {prior}: ")
