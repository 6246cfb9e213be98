"""Thousands of counts in one reading of a release.

A query is a set of sensitive values and a condition for each of some public columns. The queries are taken apart into
the conditions they share (`asked`), the release is read once as codes (`blocks`), the records of each condition are
counted by what they show, by bitmaps or by cubes (`bitmaps`, `cubes`), and all counts become estimates at once
(`estimates`). Releases of buckets have a way of their own (`dealt`).
"""

from __future__ import annotations

from sfumato.many.answers import Estimates
from sfumato.many.counting import count_many
from sfumato.many.questions import CountQuery, Range
from sfumato.many.simple import simple_count

__all__ = ["CountQuery", "Estimates", "Range", "count_many", "simple_count"]
