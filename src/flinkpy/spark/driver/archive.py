"""Makes the archive of flinkpy that `spark-submit` sends to the driver and the executors.

It has flinkpy, compiled, and below `needs/` the packages of pure Python that flinkpy needs. They are used only where
they are not installed, so an installed package with compiled parts goes first. pyarrow and numpy cannot be sent,
because Python cannot import compiled modules from an archive.
"""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

import flinkpy
from flinkpy.common.errors import UserError
from flinkpy.spark.user_files import compiled_module, files_of, zip_entry

#: The packages that a driver or an executor may lack.
NEEDS = ("cloudpickle", "google.protobuf", "yaml", "click")
#: The packages that must be installed there.
REQUIRED = ("pyarrow", "numpy")
_DIRECTORY = "needs"
#: The lines that the archive's flinkpy begins with.
_PROLOGUE = f'''\
import os as _os, sys as _sys
_sys.path.append(_os.path.join(_os.path.dirname(_os.path.dirname(__file__)), "{_DIRECTORY}"))
'''
#: Python requires these imports to be the first statements of a module.
_FUTURE = "from __future__"


def make_archive(directory: Path) -> Path:
    """Writes the archive below `directory`, and returns its path. Its name depends on its content."""
    made = directory / "flinkpy.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in _entries():
            archive.writestr(zip_entry(name), content)
    digest = hashlib.sha256(made.read_bytes()).hexdigest()[:16]
    return made.rename(directory / f"flinkpy-{flinkpy.__version__}-{digest}.zip")


def _entries() -> Iterator[tuple[str, bytes]]:
    home = Path(flinkpy.__file__).parent
    for path in files_of(home):
        name = str(path.relative_to(home.parent))
        if path == home / "__init__.py":
            yield name, _with_prologue(path.read_text()).encode()
            continue
        yield name, path.read_bytes()
        compiled = compiled_module(path)
        if compiled is not None:
            yield f"{name}c", compiled
    for package in NEEDS:
        root = _directory_of(package)
        prefix = Path(_DIRECTORY, *package.split("."))
        if "." in package:
            # A package without `__init__` is found in an archive only if the archive has an entry for its directory.
            yield f"{prefix.parent}/", b""
        for path in files_of(root):
            if path.suffix == ".py":
                yield str(prefix / path.relative_to(root)), path.read_bytes()


def _with_prologue(source: str) -> str:
    """Returns the source of flinkpy's first module, which adds `needs/` to the end of the path."""
    assert _FUTURE not in source
    return _PROLOGUE + source


def _directory_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"flinkpy's package {package} is not installed here: pip install flinkpy")
    return Path(spec.origin).parent
