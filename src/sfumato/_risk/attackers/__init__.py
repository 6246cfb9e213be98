"""Attackers who know public columns, each without and with the release.

Every attacker learns about a person only from other people. So a column with only unique values discloses nothing,
and a predictive column discloses as much as it would about people outside the table.
"""
