"""`sfumato query` leaves questions to a child: it is ended when time is over, and never outlives the command."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import SCRIPT, complaint, run, run_apart
from refusals import refuses
from releases import people, published, published_by
from sfumato._query import query_process as child_process
from sfumato._query.answer import Answer
from sfumato._query.query_process import QueryJob, ask_in_child
from sfumato._query.query_runner import QueryRunner
from sfumato._query.release import Release
from sfumato.errors import QueryError
from slow_questions import BOUNDED, COUNT, ENDLESS

pytestmark = pytest.mark.slow  # questions that are stopped by a clock

SIMPLE = f"{COUNT} WHERE disease = 'flu'"
STUCK = "SELECT age FROM release LIMIT 1"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release that is large enough for a cross product to take for ever."""
    return published(people(5000, word=["banana"]), tmp_path_factory.mktemp("apart") / "release", mechanism="uniform")


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question does not look at the clock."""
    ask = QueryRunner.ask

    def sleeping(asker: QueryRunner, sql: str) -> Any:
        if sql == STUCK:
            time.sleep(60)
        return ask(asker, sql)

    monkeypatch.setattr(QueryRunner, "ask", sleeping)
    monkeypatch.setattr(child_process, "GRACE", 0.1)


@pytest.mark.usefixtures("stuck")
def test_question_that_does_not_stop_is_ended(release: Release) -> None:
    began = time.monotonic()
    outcome = run("query", release.folder, STUCK, "--timeout", "0.2")
    assert "longer than 0.2 seconds" in complaint(outcome)
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("stuck")
def test_batch_goes_on_after_a_question_that_does_not_stop(release: Release, tmp_path: Path) -> None:
    others = [SIMPLE, "SELECT sex, COUNT(*) FROM release GROUP BY sex", SIMPLE + " AND age <> 40"]
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(json.dumps({"sql": sql}) for sql in [*others[:2], STUCK, others[2]]))
    outcome = run("query", release.folder, "--batch", path, "--timeout", "1", "--json")
    assert outcome.code == 2
    assert ["error" in each for each in outcome.json["results"]] == [False, False, True, False]
    assert "longer than 1 seconds" in outcome.json["results"][2]["error"]


def test_child_that_is_gone_is_one_sentence(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueryRunner, "ask", lambda asker, sql: os.kill(os.getpid(), signal.SIGKILL))
    assert "from outside" in complaint(run("query", release.folder, SIMPLE))


def test_child_leaves_alone_what_its_parent_has_not_put_away(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Release.open(release.folder)
    asked.sql(COUNT)  # a connection, whose threads are not copied
    circle: list[Any] = [asked]
    circle.append(circle)
    ask = QueryRunner.ask

    def collecting(asker: QueryRunner, sql: str) -> Any:
        gc.collect()
        return ask(asker, sql)

    monkeypatch.setattr(QueryRunner, "ask", collecting)
    gc.disable()
    try:
        del circle, asked
        (found,) = ask_in_child(QueryJob(release, (SIMPLE,), is_batch=False))
    finally:
        gc.enable()
    assert isinstance(found, Answer)


@pytest.mark.parametrize("mechanism", ["uniform", "buckets"])
def test_answer_is_that_of_python(tmp_path: Path, mechanism: str) -> None:
    opened = published_by(mechanism, people(120), tmp_path / "release")
    assert ask_in_child(QueryJob(opened, (SIMPLE,), is_batch=False)) == [opened.sql(SIMPLE)]


@pytest.mark.full
def test_answer_of_a_new_process_is_that_of_a_copy(release: Release) -> None:
    script = (
        "import sys; from sfumato._query import query_process; from sfumato._query.release import Release\n"
        "if __name__ == '__main__':\n"
        "    query_process.START_METHOD = sys.argv[1]\n"
        "    job = query_process.QueryJob(Release.open(sys.argv[2]), (sys.argv[3],), is_batch=False)\n"
        "    print(query_process.ask_in_child(job)[0].rows)"
    )
    ran = [
        subprocess.run(
            [sys.executable, "-c", script, start, str(release.folder), SIMPLE],
            capture_output=True,
            text=True,
            check=True,
        )
        for start in ("fork", "spawn")
    ]
    assert ran[0].stdout == ran[1].stdout != ""


@pytest.mark.slow
@pytest.mark.usefixtures("plain_signals")
@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.full) for each in (signal.SIGINT, signal.SIGHUP, signal.SIGKILL)),
    ],
)
def test_command_that_is_stopped_takes_its_question_along(release: Release, sent: signal.Signals) -> None:
    sql = ENDLESS["cross product counted"]
    command = [sys.executable, "-c", SCRIPT, "query", str(release.folder), sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        child = _child_of(asked.pid)
        asked.send_signal(sent)
        out, said = asked.communicate(timeout=30)
    assert out == ""
    if sent != signal.SIGKILL:
        assert (asked.returncode, said) == (130, "error: stopped; nothing was written.\n")
    assert _ends(child)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_signals")
def test_signal_that_comes_while_a_process_is_copied_is_not_lost(release: Release) -> None:
    """Python runs hooks then, and lets what they raise vanish."""
    hook = "import os, signal; os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGTERM)); "
    command = ["query", release.folder, ENDLESS["cross product counted"], "--timeout", "60"]
    ran = subprocess.run([sys.executable, "-c", hook + SCRIPT, *command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "error: stopped; nothing was written.\n")


def _child_of(parent: int) -> int:
    """The process that a process has started, once it has."""
    path = Path(f"/proc/{parent}/task/{parent}/children")
    for _ in range(300):
        if found := path.read_text().split():
            return int(found[0])
        time.sleep(0.05)
    raise AssertionError("no child")


def _ends(process: int) -> bool:
    for _ in range(200):
        stat = Path(f"/proc/{process}/stat")
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_slow_questions_of_a_batch_are_all_answered_or_refused(release: Release, tmp_path: Path) -> None:
    questions = [sql for sql in BOUNDED.values() if len(sql) < 2000 and "\ud800" not in sql]
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(json.dumps({"sql": sql}) for sql in [*questions, SIMPLE]))
    outcome = run("query", release.folder, "--batch", path, "--timeout", "1", "--json")
    assert len(outcome.json["results"]) == len(questions) + 1
    assert "error" not in outcome.json["results"][-1]


SENDABLE = {name: sql for name, sql in {**BOUNDED, **ENDLESS}.items() if len(sql) <= 100_000 and "\ud800" not in sql}
"""What a system takes as an argument; the others are asked in a batch."""


@pytest.mark.full
@pytest.mark.parametrize("name", SENDABLE)
def test_slow_question_ends_in_time(release: Release, name: str) -> None:
    sql = SENDABLE[name]
    began = time.monotonic()
    outcome = run_apart("query", release.folder, sql, "--timeout", "5")
    assert time.monotonic() - began < 12
    assert outcome.code == 0 or complaint(outcome)


def test_question_is_not_asked_twice_when_it_fails(release: Release) -> None:
    with refuses(QueryError, "missing-column", column="nothing"):
        ask_in_child(QueryJob(release, ("SELECT nothing FROM release",), is_batch=False))
