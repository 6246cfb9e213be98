"""The registry of record encodings, one line each."""

from __future__ import annotations

from sfumato._records import RecordEncoding
from sfumato._records.bucket_records import BucketEncoding
from sfumato._records.level_set_records import LevelSetEncoding
from sfumato._records.member_columns import MemberColumnEncoding
from sfumato._records.set_records import SetEncoding
from sfumato._records.value_records import ValueEncoding

ENCODINGS: tuple[type[RecordEncoding], ...] = (
    ValueEncoding,
    SetEncoding,
    MemberColumnEncoding,
    LevelSetEncoding,
    BucketEncoding,
)

TABLES = tuple(dict.fromkeys(file for kind in ENCODINGS for file in kind.FILES))
"""Every table that some encoding has, except the weights."""

RECORD_FILES = tuple(dict.fromkeys(kind.FILES[0] for kind in ENCODINGS))
"""Every file that some encoding stores its records in."""
