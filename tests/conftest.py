"""Settings that hold for every test."""

from __future__ import annotations

from hypothesis import settings

# A deadline measures the machine's other work, and would fail at random.
settings.register_profile("sfumato", deadline=None)
settings.load_profile("sfumato")
