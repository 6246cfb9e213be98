"""Requests that make no sense, wrong usage, and counts to plan from that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import BOUND, complaint, fail, publishing, run_apart, write_csv_rows

QUESTION = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"

# --------------------------------------------------------------------------------------------------- requests and usage


def asking(table: Path, prior: str, posterior: str, *options: str) -> list[str]:
    bound = [f"--prior={prior}", f"--posterior={posterior}"]
    return ["publish", str(table), "--out", "release", "--sensitive", "disease", *bound, *options]


@pytest.mark.parametrize(
    ("prior", "posterior", "words"),
    [
        ("1/2", "1/3", "the prior 1/2 must be below the posterior 1/3"),
        ("1/3", "1/3", "the prior 1/3 must be below the posterior 1/3"),
        ("1/10", "1", "the posterior is 1 and must be below 1"),
        ("1/10", "33", "the posterior is 33, but it must be between 0 and 1. For a percentage, write 33%"),
        ("10", "1/3", "the prior is 10, but it must be between 0 and 1. For a percentage, write 10%"),
        ("1/10", "7/3", "the posterior is 7/3 and must be below 1"),
        ("0", "1/2", "the prior is 0 and must be above 0"),
        ("-1/10", "1/2", "the prior is -1/10 and must be above 0"),
    ],
)
def test_bound_that_makes_no_sense_is_refused(desk: Path, table: Path, prior: str, posterior: str, words: str) -> None:
    assert words in fail(desk, *asking(table, prior, posterior))


@pytest.mark.parametrize(
    "number",
    ["", " ", "nan", "inf", "-inf", "1/0", "1//3", "1,5", "0.1.2", "ten", "%", "1/3%", "1e", "1e-99999999", "½", "\n"],
)
def test_junk_number_is_refused_with_how_to_write_one(desk: Path, table: Path, number: str) -> None:
    sentence = fail(desk, *asking(table, number, "1/2"))
    assert sentence == f"the prior is {number!r}: write a number such as 1/13, 0.02, 2% or 3."


@pytest.mark.parametrize("given", [[], ["--prior", "1/10"], ["--posterior", "1/2"]])
@pytest.mark.parametrize("command", ["publish", "plan"])
def test_half_a_bound_is_refused(desk: Path, table: Path, command: str, given: list[str]) -> None:
    out = ["--out", "release"] if command == "publish" else []
    sentence = fail(desk, command, table, *out, "--sensitive", "disease", *given)
    lacking = " and ".join(option for option in ("--prior", "--posterior") if option not in given)
    assert sentence == f"no protection was chosen. Give {lacking}, for example --prior 1/10 --posterior 1/3."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--mechanism", "magic"],
            "the mechanism 'magic' is unknown; the known mechanisms are auto, uniform, subset, levels, noisy-counts, "
            "small-domain, fine-grain, harmonic, buckets, anatomy, decoys.",
        ),
        (["--guarantee", "magic"], "the guarantee 'magic' is unknown; ask for any-prior or marginal-prior."),
        (["--unsafe-test-key", "xyz"], "a test key must consist of hexadecimal digits."),
        (["--unsafe-test-key", "00"], "a key has 32 bytes (64 hexadecimal digits), not 1."),
        (["--magic"], "no such option: --magic"),
        (["--ranges"], "--ranges"),
        (["another.csv"], "another.csv"),
    ],
)
def test_unknown_words_are_refused(desk: Path, table: Path, options: list[str], words: str) -> None:
    assert words in fail(desk, *publishing(table, *options))


@pytest.mark.parametrize(
    ("arguments", "help_of"),
    [
        ([], "sfumato"),
        (["magic"], "sfumato"),
        (["publish"], "sfumato publish"),
        (["info"], "sfumato info"),
        (["query", "release"], "sfumato query"),
        (["verify", "release", "--force"], "sfumato verify"),
        (["demo", "--rows", "999"], "sfumato demo"),
        (["demo", "--rows", "many"], "sfumato demo"),
        (["query", "release", QUESTION, "--level", "high"], "sfumato query"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_refused_with_where_help_is(desk: Path, arguments: list[str], help_of: str) -> None:
    assert fail(desk, *arguments).endswith(f"; see {help_of} --help.")


@pytest.mark.slow
def test_wrong_usage_fails_alike_in_a_process_of_its_own(desk: Path) -> None:
    assert complaint(run_apart("publish", "--magic")).startswith("no such option: --magic")
    assert complaint(run_apart()).startswith("missing command")


# ------------------------------------------------------------------------------------------------------ plans of counts


def planning(*options: str | Path) -> list[str]:
    return ["plan", *map(str, options), *BOUND]


@pytest.mark.parametrize("both", [True, False])
def test_plan_takes_a_table_or_counts(desk: Path, table: Path, both: bool) -> None:
    (desk / "counts.csv").write_text("value,count\nflu,1\n")
    sentence = fail(desk, *planning(*([table, "--counts", "counts.csv"] if both else [])))
    assert sentence == "name either a table, or a file of counts (--counts)."


FORM = "'counts.csv' must have the columns value and count, with whole numbers as counts."


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"flu,3\ncold,4\n", FORM),
        (b"value|count\nflu|3\n", FORM),
        (b"value,count\nflu,many\n", FORM),
        (b"value,count\nflu,1.5\n", FORM),
        (b"value,count\nflu\n", FORM),
        (b"value,count\nflu,\n", FORM),
        (b"value,count\nfl\xfc,3\n", "'counts.csv' is not UTF-8 text; save it as UTF-8."),
        (b'value,count\n"' + b"a" * 200_000 + b'",3\n', FORM),
        (b"value,count\nflu,-3\n", "a count is below zero."),
        (b"value,count\nflu,0\n", "the table is empty: there is nothing to publish."),
        (b"value,count\n", "the table is empty: there is nothing to publish."),
        (b"", "the table is empty: there is nothing to publish."),
        (b"value,count\nflu,3\nflu,4\n", "a value occurs twice in the domain; name each value once."),
        (b"value,count\nflu,3\n", "the sensitive column has only one value"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else "",
)
def test_malformed_counts_are_refused(desk: Path, written: bytes, words: str) -> None:
    (desk / "counts.csv").write_bytes(written)
    assert fail(desk, *planning("--counts", "counts.csv")).startswith(words)


@pytest.mark.parametrize("name", ["nowhere.csv", "."])
def test_counts_that_cannot_be_read_are_refused(desk: Path, name: str) -> None:
    assert fail(desk, *planning("--counts", name)).startswith(f"{name!r} cannot be read: ")


def test_planning_a_table_fails_like_publishing_it(desk: Path) -> None:
    write_csv_rows(desk / "people.csv", [["age", "disease"], [1, "flu"]])
    assert "the table has one row" in fail(desk, *planning("people.csv", "--sensitive", "disease"))
