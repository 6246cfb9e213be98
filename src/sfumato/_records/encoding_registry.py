"""The kinds of things that records show: one line each."""

from __future__ import annotations

from sfumato._records import RecordEncoding
from sfumato._records.bucket_records import Buckets
from sfumato._records.level_records import LeveledSets
from sfumato._records.member_columns import MemberColumns
from sfumato._records.set_records import Sets
from sfumato._records.value_records import Values

KINDS: tuple[type[RecordEncoding], ...] = (Values, Sets, MemberColumns, LeveledSets, Buckets)

TABLES = tuple(dict.fromkeys(file for kind in KINDS for file in kind.FILES))
"""Every table that some release has, beside its weights."""

RECORD_FILES = tuple(dict.fromkeys(kind.FILES[0] for kind in KINDS))
"""Every file that some release has its records in."""
