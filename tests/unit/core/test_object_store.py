"""Addresses in stores: what is one, and what is refused without being repeated."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sfumato._core.object_store import Address
from sfumato.errors import SourceError, TargetError


@pytest.mark.light
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("s3://bucket/folder/table.parquet", "s3://bucket/folder/table.parquet"),
        ("s3a://bucket/folder/", "s3://bucket/folder"),
        ("S3://bucket", "s3://bucket"),
        ("gcs://bucket/a b", "gs://bucket/a b"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
    ],
)
def test_address_is_known_by_its_store_even_from_a_path(given: str, meant: str) -> None:
    for each in (given, Path(given)):
        found = Address.of(each, SourceError)
        assert str(found) == meant
        assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.light
@pytest.mark.parametrize("given", ["table.csv", "/tmp/s3://x", "data/s3:x", "s3:", "hdfs://host/x", "C:/x", ""])
def test_path_is_no_address(given: str) -> None:
    assert Address.of(given, SourceError) is None


@pytest.mark.light
@pytest.mark.parametrize(
    "given",
    [
        "s3://AKIA:hush@bucket/x",
        "s3://hush@bucket/x",
        "s3://bucket:hush/x",
        "s3://bucket/x?secret_key=hush",
        "s3://",
        "s3://bucket/hush/../x",
        "s3://bucket//x",
        "abfs://container:hush@account/x",
    ],
)
def test_credentials_and_crooked_names_are_refused_without_being_repeated(given: str) -> None:
    with pytest.raises(TargetError) as refused:
        Address.of(given, TargetError)
    assert "hush" not in str(refused.value)


def test_parts_of_an_address() -> None:
    table = Address("s3", "bucket/folder/table.parquet")
    assert (table.name, table.suffix, str(table.parent)) == ("table.parquet", ".parquet", "s3://bucket/folder")
    assert table.parent / "table.parquet" == table
    assert str(table.relative_to(Address("s3", "bucket"))) == "folder/table.parquet"
