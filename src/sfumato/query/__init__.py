"""Questions to a release: public columns are counted by DuckDB, and the counts become estimates.

`grammar` says what SQL may be made of, `sources` and `question` take it apart, `conditions` finds out what each value
of the domain makes of it, `tallying` counts, `pieces` and `formulas` make estimates of the counts, `adjusting` makes
them consistent on request, and `asking` puts it together. Queries without a sensitive column are `public`, and answered
exactly.
"""

from sfumato.query.adjusting import adjusting
from sfumato.query.answer import Answer
from sfumato.query.asking import NOTHING, TOGETHER, Asker, ask, count, method_of
from sfumato.query.attaching import attached, parse_attachments
from sfumato.query.connection import DEFAULT_MEMORY, DEFAULT_SECONDS, Limits
from sfumato.query.grammar import parse
from sfumato.query.question import DEFAULT_COUNT
from sfumato.query.tallying import read_holdings
from sfumato.query.weighing import record_weights

__all__ = [
    "DEFAULT_COUNT",
    "DEFAULT_MEMORY",
    "DEFAULT_SECONDS",
    "NOTHING",
    "TOGETHER",
    "Answer",
    "Asker",
    "Limits",
    "adjusting",
    "ask",
    "attached",
    "count",
    "method_of",
    "parse",
    "parse_attachments",
    "read_holdings",
    "record_weights",
]
