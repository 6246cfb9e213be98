"""Programs that some tests need and a developer's machine may lack, such as a browser."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

import pytest


def needs(*names: str) -> str:
    """The path of a program, which may go by several names; call it in a fixture or at the start of a test.

    Where there is none, the test is skipped, and the last line of the run says so. In CI it fails: a machine that is to
    judge a change has everything, and a test that never runs there guards nothing. What such a machine tried to install
    in vain it names in CI_LACKS, so that it is known.
    """
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    leave_out(*names)


def leave_out(*names: str) -> NoReturn:
    """Skip a test because the machine has none of what it needs; in CI, fail."""
    missing = f"no {' or '.join(names)}"
    if os.environ.get("CI") and not {*names} & {*os.environ.get("CI_LACKS", "").split()}:
        pytest.fail(f"{missing}: in CI every test runs, so the machine must have it.")
    pytest.skip(missing)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Say in the last line, after the summary, what was skipped and why."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return  # a worker has no terminal; what it skipped is told by the process that started it
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reporter.stats.get("skipped", ()))
    told = ", ".join(f"{count} for {reason}" for reason, count in reasons.most_common())
    reporter.write_line(f"skipped: {told or 'nothing'}")
