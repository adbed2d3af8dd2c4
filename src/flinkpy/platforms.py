"""Says on which systems flinkpy runs, where it is imported or started on another one.

Imports nothing but the standard library: on Windows the rest of flinkpy cannot be imported.
"""

from __future__ import annotations

#: Where to run instead.
_INSTEAD = (
    "Run it on Linux: in a container (docs/deployment.md has images and a compose file), in a virtual machine{wsl}"
)


def check_import(platform: str) -> None:
    """Raises: ImportError on systems where flinkpy cannot even be imported.

    Args:
        platform: as `sys.platform` has it.
    """
    if platform in ("win32", "cygwin"):
        wsl = ", or in WSL 2 (Windows Subsystem for Linux)"
        raise ImportError(
            f"flinkpy does not run on Windows: it needs Linux's processes and file locks. {_INSTEAD.format(wsl=wsl)}."
        )


def unsupported_services(platform: str) -> str | None:
    """Why services of flinkpy cannot be started on this system; None where they can."""
    if platform == "linux":
        return None
    name = "macOS" if platform == "darwin" else platform
    return (
        f"flinkpy's services run on Linux only, and this is {name}: they need /proc, prctl and memfd_create to be "
        f"started, watched and ended. {_INSTEAD.format(wsl='')}. Programs can be submitted from here to a cluster on "
        "Linux: `flinkpy run -m HOST:PORT`"
    )
