"""Errors on systems other than Linux say what to do. The tests pass the name of the system."""

from __future__ import annotations

import pytest

from flinkpy.client.service_process import check_services_run_here
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.platforms import check_import


def test_linux_is_supported() -> None:
    check_import("linux")
    check_services_run_here("linux")


@pytest.mark.parametrize("platform", ["win32", "cygwin"])
def test_windows_is_refused_when_flinkpy_is_imported(platform: str) -> None:
    with pytest.raises(ImportError, match=r"does not run on Windows.*container.*WSL 2"):
        check_import(platform)


@pytest.mark.parametrize(("platform", "name"), [("darwin", "macOS"), ("freebsd14", "freebsd14")])
def test_services_are_refused_elsewhere_while_programs_can_be_submitted_from_there(platform: str, name: str) -> None:
    check_import(platform)
    with pytest.raises(UnsupportedOperationError, match=rf"run on Linux only, and this is {name}.*flinkpy run -m"):
        check_services_run_here(platform)
