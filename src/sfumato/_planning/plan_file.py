"""Reads and writes the private plan file.

The file holds the key of a release, so that publishing again repeats the release.

Two independent releases of one table disclose more than one, because their amplifications multiply. A data steward who
may have to publish again keeps the plan file, unreadable for others, and destroys it when it is no longer needed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sfumato._core.digests import compute_json_digest
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import OptionValues
from sfumato._core.random_draws import BOUND_SINCE, VERSION, Draws
from sfumato._core.software_version import read_software_version
from sfumato._request.guarantee import Guarantee
from sfumato._request.person_rows import PersonRows
from sfumato.errors import ReleaseFormatError, SfumatoError, TargetError, explain_os_error
from sfumato.mechanisms import REGISTRY, UNNAMED_OPTIONS

FORMAT = 3
OTHERS_RIGHTS = 0o077
"""The permission bits of everybody except the owner. A plan file must have none of them."""


@dataclass(frozen=True)
class RequestRecord:
    """A request, with the options of every mechanism that could be chosen, by their names."""

    request: JsonView
    options: Mapping[str, OptionValues] = field(default_factory=dict)

    def bind(self, draws: Draws, fingerprint: str) -> Draws:
        """Binds a key to a table and to a request, so that no other table or request ever shares its draws."""
        return draws.bind_to_table(compute_json_digest({"table": fingerprint, "request": dict(self.request)}))

    def is_same(self, other: RequestRecord) -> bool:
        """Whether two requests are the same. A mechanism that only one of the requests knows is ignored."""
        return not self.list_differences(other)

    def list_differences(self, other: RequestRecord) -> list[str]:
        """The differences from another request, by the names of its arguments."""
        differences = []
        for name in dict.fromkeys((*self.request, *other.request)):
            if name == "schema":  # only a digest of the schema is stored
                if self.request.get(name) != other.request.get(name):
                    differences.append(
                        "the roles of columns, or the way they are read (such as `drop=`, `ranges=`, `domains=`)"
                    )
            else:
                differences += _describe_difference(name, self.request.get(name), other.request.get(name))
        for name in (key for key in self.options if key in other.options):
            one, two = self.options[name], other.options[name]
            for key in dict.fromkeys((*one, *two)):
                differences += _describe_difference(key, one.get(key), two.get(key))
        return list(dict.fromkeys(differences))  # a difference that several mechanisms share is listed once


def _describe_difference(name: str, then: object, now: object) -> list[str]:
    """The old and the new value of an argument, if they differ and are short."""
    if then == now:
        return []
    if isinstance(then, Mapping) or isinstance(now, Mapping):
        return [f"`{name}=`"]
    old_text, new_text = (f"`{name}={value!r}`" if value is not None else f"no `{name}=`" for value in (then, now))
    return [f"{old_text} in the plan file, {new_text} in this request"]


@dataclass(frozen=True)
class PlanFile:
    """A key, and facts about the release that was made with this key."""

    draws: Draws
    fingerprint: str
    request_record: RequestRecord
    mechanism: str
    """The chosen mechanism, so that a later version does not choose another mechanism for the same key."""
    plan_digest: str | None = None
    """The digest of the plan. Files of the first versions have no digest."""
    software: str = field(default_factory=read_software_version)
    draws_version: int = VERSION
    person_settings: tuple[str, PersonRows] | None = None
    """The person column, and the number of rows that each person may have."""

    @property
    def table_draws(self) -> Draws:
        """The draws of the release. Older versions drew with the key itself, not bound to a table."""
        return (
            self.draws if self.draws_version < BOUND_SINCE else self.request_record.bind(self.draws, self.fingerprint)
        )

    def to_json(self) -> Json:
        """The content of the file."""
        return {
            "sfumato_plan": FORMAT,
            "warning": "private: anyone who has this file can undo the protection of the release",
            "key": self.draws.key.hex(),
            "is_test": self.draws.is_test,
            "fingerprint": self.fingerprint,
            "request": dict(self.request_record.request),
            "options": {name: dict(values) for name, values in self.request_record.options.items()},
            "mechanism": self.mechanism,
            "plan": self.plan_digest,
            "software": self.software,
            "draws": self.draws_version,
            "persons": self.person_settings
            and {"column": self.person_settings[0], **self.person_settings[1].to_json()},
        }

    @classmethod
    def read(cls, path: Path) -> PlanFile:
        """Read a plan file, and refuse a file that other users can read."""
        try:
            with path.open(encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode
                entries = json.load(file)
            if entries["sfumato_plan"] > FORMAT:
                raise ReleaseFormatError(
                    f"the plan file {str(path)!r} has a newer format: update sfumato.",
                    code="newer-format",
                    fields={"file": str(path)},
                )
            plan_file = cls(
                Draws(bytes.fromhex(entries["key"]), bool(entries["is_test"])),
                str(entries["fingerprint"]),
                _read_request_record(entries),
                str(entries.get("mechanism", next(iter(REGISTRY)))),  # the first format knew one mechanism
                entries.get("plan"),
                str(entries.get("software", "0.1")),
                int(entries.get("draws", 1)),
                _read_person_settings(entries.get("persons")),
            )
            if mode & OTHERS_RIGHTS:
                raise ReleaseFormatError(
                    f"other users can read the plan file {str(path)!r}, and anyone who reads it can undo the "
                    f"protection of its release; make it private with `chmod 600 {shlex.quote(str(path))}`.",
                    code="plan-file-readable-by-others",
                    fields={"file": str(path)},
                )
            return plan_file
        except ReleaseFormatError:
            raise
        except (FileNotFoundError, PermissionError) as error:
            raise ReleaseFormatError(
                f"the plan file {str(path)!r} cannot be read: {explain_os_error(error)}.",
                code="unreadable-file",
                fields={"file": str(path), "reason": explain_os_error(error)},
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SfumatoError) as error:
            raise ReleaseFormatError(
                f"{str(path)!r} is not a plan file, or is damaged; name another file.",
                code="damaged-plan-file",
                fields={"file": str(path)},
            ) from error

    @classmethod
    def read_if_written(cls, path: Path | None) -> PlanFile | None:
        """Read a plan file. None if the file does not exist, or if a killed publication left it empty."""
        try:
            return None if path is None or _is_blank(path.stat()) else cls.read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TargetError(f"the plan file {str(path)!r} cannot be opened: {explain_os_error(error)}.") from error

    def check(self, fingerprint: str, request_record: RequestRecord) -> None:
        """Refuse to use the key for anything but the same table, the same request and the same draws."""
        if self.draws_version < BOUND_SINCE:
            raise ReleaseFormatError(
                "the plan file was made by an older version, which did not bind its key to one table; publish with a "
                "new plan file. Publishing again makes a second, independent release, and together the two releases "
                "disclose more than the guarantee of one release allows.",
                code="plan-file-of-older-version",
                fields={"draws": self.draws_version},
            )
        if fingerprint != self.fingerprint:
            raise ReleaseFormatError(
                "the plan file belongs to another table, or the table has changed. A key is used for one table "
                "only. Name another plan file, or name the original table to repeat its release.",
                code="plan-file-of-another-table",
            )
        if differences := self.request_record.list_differences(request_record):
            raise ReleaseFormatError(
                "the plan file belongs to another request for this table, with other settings: "
                f"{'; '.join(differences)}. Make the same request to repeat the release. Another plan file would "
                "make a second release, and two releases reveal more than one.",
                code="plan-file-of-another-request",
                fields={"differences": "; ".join(differences)},
            )
        if self.mechanism not in REGISTRY:
            raise ReleaseFormatError(
                f"the plan file was made by sfumato {self.software} with the mechanism {self.mechanism!r}, which "
                "this version does not have; repeat its release with that version.",
                code="unknown-mechanism",
                fields={"mechanism": self.mechanism, "software": self.software},
            )
        if self.draws_version != VERSION:
            raise self._make_mismatch_error()

    def check_plan(self, plan_digest: str) -> None:
        """Refuse a plan that differs from the plan in the file."""
        if plan_digest != self.plan_digest:
            raise self._make_mismatch_error()

    def _make_mismatch_error(self) -> ReleaseFormatError:
        return ReleaseFormatError(
            "the release of this plan file would come out differently, because it was made by sfumato "
            f"{self.software} or with other versions of its libraries; repeat the release with those versions, "
            "because two different releases of one table reveal more than one.",
            code="release-would-differ",
            fields={"software": self.software},
        )


# ------------------------------------------------------------------------------------------------------ who may use it


@dataclass
class Claim:
    """A run's hold on its plan file: either a plan to repeat, or an empty file that the run has locked."""

    path: Path | None = None
    repeated_plan: PlanFile | None = None
    descriptor: int | None = None
    """The descriptor of the empty file."""
    is_published: Callable[[], bool] = lambda: False
    """Whether a release made with the file's key exists. If so, the file is never removed."""

    def write(self, plan: PlanFile, is_published: Callable[[], bool]) -> None:
        """Save the key before its release appears, so that no published release loses its key."""
        if self.path is None or self.descriptor is None:
            return
        self.is_published = is_published
        try:
            with open(self.descriptor, "w", encoding="utf-8", closefd=False) as file:
                json.dump(plan.to_json(), file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(self.descriptor)
            folder = os.open(self.path.parent, os.O_RDONLY)  # sync the folder too, for the name of a new file
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise TargetError(
                f"the plan file {str(self.path)!r} cannot be written: {explain_os_error(error)}.",
                code="unwritable-file",
                fields={"file": str(self.path), "reason": explain_os_error(error)},
            ) from error

    def give_up(self) -> None:
        """Remove the file that this run created, if no release uses its key.

        If the path is a link, the file is only emptied.
        """
        if self.path is None or self.descriptor is None or self.is_published():
            return
        os.ftruncate(self.descriptor, 0)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self.descriptor), self.path.lstat()):
                self.path.unlink()


@contextmanager
def claim_plan_file(path: Path | None) -> Iterator[Claim]:
    """Claim a plan file before anything is drawn. Of several runs with the same new file, only one continues.

    A new file is created empty, readable only by its owner, and locked until the release is written. If the publication
    fails, the file is removed. A killed run leaves the file empty, and the next run uses it. A file with content is
    never overwritten.
    """
    if path is None:
        yield Claim()
        return
    descriptor, is_blank = _lock_plan_file(path)
    try:
        claim = Claim(path, None if is_blank else PlanFile.read(path), descriptor if is_blank else None)
        try:
            yield claim
        except BaseException:
            claim.give_up()
            raise
    finally:
        os.close(descriptor)


def _lock_plan_file(path: Path) -> tuple[int, bool]:
    """Opens the plan file, created if necessary, and says whether it is blank. A blank file is locked by this run."""
    while True:
        try:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR))
            is_blank = _is_blank(path.stat())
            descriptor = os.open(path, (os.O_RDWR if is_blank else os.O_RDONLY) | os.O_NONBLOCK)
        except FileNotFoundError as error:
            if path.is_symlink() or not path.parent.is_dir():
                raise TargetError(
                    f"the plan file {str(path)!r} cannot be created: its link points to a path that does not exist.",
                    code="no-link-target",
                    fields={"file": str(path)},
                ) from error
            continue  # another run has just removed it
        except OSError as error:
            raise TargetError(
                f"the plan file {str(path)!r} cannot be opened: {explain_os_error(error)}.",
                code="unwritable-file",
                fields={"file": str(path), "reason": explain_os_error(error)},
            ) from error
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if is_blank else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
            if _is_blank(status) == is_blank and os.path.samestat(status, path.stat()):
                return descriptor, is_blank
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                code = "plan-file-in-use"
                problem = (
                    "is being written by another run; publish again after that run has ended, to repeat its release."
                )
            else:
                code, problem = "unwritable-file", f"cannot be locked: {explain_os_error(error)}."
            raise TargetError(
                f"the plan file {str(path)!r} {problem}", code=code, fields={"file": str(path)}
            ) from error
        os.close(descriptor)  # another run wrote or removed it before this run had the lock


def _is_blank(status: os.stat_result) -> bool:
    """Whether a file was created by a run and not yet written."""
    return stat.S_ISREG(status.st_mode) and not status.st_mode & OTHERS_RIGHTS and status.st_size == 0


def _read_person_settings(entries: JsonView | None) -> tuple[str, PersonRows] | None:
    """The person settings of a plan file. Older files have no such settings."""
    return None if entries is None else (str(entries["column"]), PersonRows.from_json(entries))


# -------------------------------------------------------------------------------------------------- files of old forms


def _read_request_record(entries: JsonView) -> RequestRecord:
    """The request of a plan file. An option that the file lacks has the default of the version that wrote it."""
    request = dict(entries["request"])
    if entries["sfumato_plan"] < FORMAT:  # read only for its key and its persons, because its release is never repeated
        return RequestRecord({name: value for name, value in request.items() if name != "options"})
    options = entries["options"]
    return RequestRecord(
        request, {name: {**UNNAMED_OPTIONS.get(name, {}), **options[name]} for name in sorted(options)}
    )


def find_usual_guarantee(mechanism: str) -> str:
    """The guarantee of a mechanism if none is requested."""
    entry = REGISTRY.get(mechanism)
    return Guarantee.ANY_PRIOR if entry is None or entry.guarantee is Guarantee.SINGLE_VALUES else entry.guarantee
