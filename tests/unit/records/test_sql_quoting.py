"""SQL that we suggest can be typed as it stands."""

from __future__ import annotations

import duckdb

from sfumato._records.sql_quoting import quote_if_needed


def test_words_that_duckdb_reserves_are_quoted() -> None:
    sql = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    words = {word for (word,) in duckdb.sql(sql).fetchall()}
    assert {"order", "group", "left"} <= words
    assert {word for word in words if quote_if_needed(word) == word} == set()
    assert quote_if_needed("Order") == '"Order"'
    assert quote_if_needed("ward") == "ward"
