"""The kinds of things that records show: one line each."""

from __future__ import annotations

from sfumato.shown import Shown
from sfumato.shown.buckets import Buckets
from sfumato.shown.levels import LeveledSets
from sfumato.shown.member_columns import MemberColumns
from sfumato.shown.sets import Sets
from sfumato.shown.values import Values

KINDS: tuple[type[Shown], ...] = (Values, Sets, MemberColumns, LeveledSets, Buckets)

TABLES = tuple(dict.fromkeys(file for kind in KINDS for file in kind.FILES))
"""Every table that some release has, beside its weights."""

RECORD_FILES = tuple(dict.fromkeys(kind.FILES[0] for kind in KINDS))
"""Every file that some release has its records in."""
