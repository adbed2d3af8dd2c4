"""A restore links the files of a database from which it only copies records, and relies on RocksDB to check them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flinkpy.common import Configuration
from flinkpy.common.errors import CorruptStateError
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.settings import MIN_BLOB_SIZE, RocksDBSettings

pytest.importorskip("rocksdict")


@pytest.mark.parametrize(
    ("suffix", "value_bytes"), [(".sst", MIN_BLOB_SIZE // 2), (".sst", 2 * MIN_BLOB_SIZE), (".blob", 2 * MIN_BLOB_SIZE)]
)
def test_a_damaged_block_or_value_is_found_when_it_is_read(tmp_path: Path, suffix: str, value_bytes: int) -> None:
    settings = RocksDBSettings.read(Configuration())
    written = RocksDatabase(tmp_path / "written", settings.database_options(), settings.write_batch_bytes)
    draw = random.Random(1)
    keys = [number.to_bytes(4, "big") for number in range(500)]
    written.put_many(keys, [draw.randbytes(value_bytes) for _ in keys])
    written.link_files_into(tmp_path / "linked")
    written.release()
    restored = tmp_path / "restored" / "db"
    restored.parent.mkdir()
    (tmp_path / "linked").rename(restored)
    (file,) = restored.glob(f"*{suffix}")
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 0x40
    file.write_bytes(data)
    with pytest.raises(CorruptStateError):
        database = RocksDatabase(restored.parent, settings.database_options(), settings.write_batch_bytes)
        database.put_pairs(database.scan(b"\0", None))
