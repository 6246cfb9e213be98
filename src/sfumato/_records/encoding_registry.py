"""The registry of record encodings, with one line for each encoding."""

from __future__ import annotations

from sfumato._records import RecordEncoding
from sfumato._records.bucket_records import BucketEncoding
from sfumato._records.crowd_records import CrowdEncoding
from sfumato._records.level_set_records import LevelSetEncoding
from sfumato._records.member_columns import MemberColumnEncoding
from sfumato._records.set_records import SetEncoding
from sfumato._records.value_records import ValueEncoding

ENCODINGS: tuple[type[RecordEncoding], ...] = (
    ValueEncoding,
    SetEncoding,
    MemberColumnEncoding,
    LevelSetEncoding,
    CrowdEncoding,
    BucketEncoding,
)

TABLES = tuple(dict.fromkeys(file for kind in ENCODINGS for file in (*kind.FILES, *kind.OPTIONAL_FILES)))
"""All tables that an encoding may have, except the weights."""

RECORD_FILES = tuple(dict.fromkeys(kind.FILES[0] for kind in ENCODINGS))
"""All names of files in which an encoding may store its records."""
