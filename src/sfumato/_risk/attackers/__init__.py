"""Attackers who know public columns. Each is evaluated without and with the release.

Every attacker learns about a person only from other people. So a column with only unique values discloses nothing. A
predictive column discloses as much as it would disclose about people outside the table.
"""
