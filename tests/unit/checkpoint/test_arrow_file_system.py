"""The paths of URIs in the file systems of pyarrow."""

from __future__ import annotations

import pytest
from pyarrow import fs

from flinkpy.checkpoint.storage.arrow_file_system import create_file_system


@pytest.mark.parametrize(
    "uri",
    [
        "abfs://lake@account.dfs.core.windows.net/out/x",
        "abfss://lake@account.dfs.core.windows.net/out/x",
        "abfs://account.dfs.core.windows.net/lake/out/x",
        "abfs://lake@account.dfs.core.windows.net",
        "gs://lake/out/x",
        "s3://lake/out/x",
    ],
)
def test_paths_begin_with_the_bucket_or_container(uri: str) -> None:
    settings = {"s3.endpoint": "http://localhost:1", "s3.access-key": "a", "s3.secret-key": "b"}
    made = create_file_system(uri, settings)
    assert made.is_object_store
    _, path = fs.FileSystem.from_uri(f"{uri}?region=us-east-1" if uri.startswith("s3") else uri)
    assert made.inner(uri) == path.strip("/")
