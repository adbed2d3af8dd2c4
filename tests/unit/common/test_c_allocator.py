"""Temporary columns do not cost page faults in each batch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flinkpy.common import c_allocator

_PROGRAM = """
import resource
import sys
import numpy as np
from flinkpy.common.c_allocator import keep_freed_memory, return_free_memory

assert keep_freed_memory() is (sys.argv[1] == "kept")

def batch():
    one = np.ones(65_536 * 2)
    two = one + 1
    three = one * two
    del one, two, three

batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
return_free_memory()
"""
_IS_GLIBC = c_allocator._glibc() is not None


def faults(mode: str, **environment: str) -> int:
    """Returns the page faults of 20 batches in a process of its own."""
    command = [sys.executable, "-c", _PROGRAM, mode]
    told = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return int(told.stdout)


@pytest.mark.skipif(not _IS_GLIBC, reason="the C library is not glibc")
def test_memory_of_a_batch_is_used_again_by_the_next() -> None:
    assert faults("kept") < 20 * 64


@pytest.mark.skipif(not _IS_GLIBC, reason="the C library is not glibc")
def test_the_settings_of_the_user_stay() -> None:
    assert faults("stays", MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072") > 20 * 256


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_allocator, "_glibc", lambda: None)

    assert not c_allocator.keep_freed_memory()
    c_allocator.return_free_memory()
