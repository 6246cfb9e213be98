"""Checks a refusal by its class, code and fields. Its sentence may change freely."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sfumato.errors import ErrorField, SfumatoError


@contextmanager
def refuses(kind: type[SfumatoError], code: str, **fields: ErrorField) -> Iterator[pytest.ExceptionInfo[SfumatoError]]:
    """The block must raise an error of this class with this code and at least these fields."""
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.code == code, (error.code, str(error))
    assert fields.items() <= error.fields.items(), error.fields
    assert {type(fact) for fact in error.fields.values()} <= {str, int, float, type(None)}, error.fields
