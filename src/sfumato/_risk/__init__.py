"""Disclosure risk of a release or table: attackers, privacy models, and lint."""
