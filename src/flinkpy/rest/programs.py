"""Programs: the Python programs that users uploaded, and how each kind of file is run.

| file          | entry points                                                       | runs as                     |
|---------------|--------------------------------------------------------------------|-----------------------------|
| `.py`         | the script                                                         | the script                  |
| `.zip` `.pyz` | `__main__.py`, or a module in it that the request names            | the script, or `-m MODULE`  |
| `.whl`        | the console scripts of its metadata, or a module, or `module:name` | the function, or the module |

Files are never unpacked, and nothing of them runs in this process. All calls block.

Source: org.apache.flink.runtime.webmonitor.handlers.{JarUploadHandler,JarListHandler,JarHandlerUtils}.
Differs: Flink takes jars.
"""

from __future__ import annotations

import configparser
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from flinkpy.common.private_directory import PrivateDirectory
from flinkpy.rest.errors import RestError, bad_request, not_found

SUFFIXES = (".py", ".zip", ".pyz", ".whl")
#: The directory inside `web.upload.dir`, which may be a shared place.
DIRECTORY = "flinkpy-web-upload"
_PIECE_BYTES = 1 << 20
#: The text of `entry_points.txt` is short; more is not read from a file that anybody may have made.
_MAX_METADATA_BYTES = 1 << 20
_ID = re.compile(r"[0-9a-f]{16}_.+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@=-]{0,199}")
_ENTRY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(?::[A-Za-z_][A-Za-z0-9_.]*)?")

_LAUNCHER = """import sys
from importlib import import_module

entry = import_module({module!r})
for part in {name!r}.split("."):
    entry = getattr(entry, part)
sys.exit(entry())
"""


@dataclass(frozen=True, slots=True)
class UploadedProgram:
    """An uploaded file. `entries` are the names of its entry points, each with a description."""

    id: str
    name: str
    uploaded_ms: int
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """How to run a program: what `flinkpy run` takes as PROGRAM, and the files to import from."""

    program: str
    python_files: tuple[str, ...] = ()


class Programs:
    """The uploaded programs of one server.

    Args:
        directory: returns the directory, which only this user can change. It is called when the first file comes.
        max_total_bytes: the maximum size of all files together.
    """

    def __init__(self, directory: Callable[[], Path], max_total_bytes: int) -> None:
        self._make_directory = directory
        self._made: Path | None = None
        self._max_total_bytes = max_total_bytes

    @property
    def _directory(self) -> Path:
        if self._made is None:
            self._made = self._make_directory()
        return self._made

    def add(self, filename: str, content: BinaryIO) -> Path:
        """Stores a file and returns its path. Raises: RestError with status 400 or 413."""
        name = os.path.basename(filename.replace("\\", "/"))
        if not name.endswith(SUFFIXES):
            raise bad_request(f"Only Python programs are allowed: {', '.join(SUFFIXES)}.")
        if _NAME.fullmatch(name) is None:
            raise bad_request("The name of the file may hold letters, digits and ._+@=- only, and begins with one.")
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        used = sum(path.stat().st_size for path in self._paths())
        if used + size > self._max_total_bytes:
            raise RestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The uploaded programs would take {used + size} bytes; `rest.upload.max-total-size` is "
                f"{self._max_total_bytes}.",
            )
        path = self._directory / f"{secrets.token_hex(8)}_{name}"
        unfinished = path.with_name(f".{path.name}")
        try:
            with unfinished.open("xb") as file:
                shutil.copyfileobj(content, file, _PIECE_BYTES)
            if not name.endswith(".py") and not zipfile.is_zipfile(unfinished):
                raise bad_request(f"{name} is not a zip file.")
            unfinished.rename(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    def all(self) -> list[UploadedProgram]:
        """Returns all programs, the latest first."""
        found = []
        for path in self._paths():
            try:
                uploaded_ms = int(path.stat().st_mtime * 1000)
                found.append(UploadedProgram(path.name, path.name[17:], uploaded_ms, entry_points(path)))
            except OSError:
                continue  # deleted meanwhile
        return sorted(found, key=lambda one: one.uploaded_ms, reverse=True)

    def delete(self, program_id: str) -> None:
        """Raises: RestError with status 400 if there is no such program, as in Flink."""
        path = next((path for path in self._paths() if path.name == program_id), None)
        if path is None:
            raise bad_request(f"File {program_id} does not exist in {self._directory}.")
        for derived in self._directory.glob(f".{program_id}.*"):
            derived.unlink(missing_ok=True)
        path.unlink(missing_ok=True)

    def launch(self, program_id: str, entry: str | None) -> Launch:
        """Returns how to run a program.

        Args:
            entry: the entry point; by default the script, `__main__`, or the only console script.

        Raises: RestError with status 404 for an unknown program, 400 for an entry point that cannot be.
        """
        path = next((path for path in self._paths() if path.name == program_id), None)
        if path is None:
            raise not_found(f"File {program_id} does not exist.")
        if path.suffix == ".py":
            return Launch(str(path))
        names = [name for name, _ in entry_points(path)]
        if entry is None:
            if len(names) != 1:
                raise bad_request(
                    f"{path.name[17:]} has {len(names)} entry points ({', '.join(names[:10]) or 'none'}): name one as "
                    "`entryClass`, or a module, or `module:function`."
                )
            entry = names[0]
        if entry == "__main__":
            return Launch(str(path), (str(self._importable(path)),))
        target = _console_scripts(path).get(entry, entry)
        if _ENTRY.fullmatch(target) is None:
            raise bad_request(f"{entry[:200]!r} is not the name of a module or `module:function`.")
        importable = str(self._importable(path))
        module, _, name = target.partition(":")
        if not name:
            return Launch(f"module:{module}", (importable,))
        launcher = path.with_name(f".{path.name}.{module}.{name}.py")
        launcher.write_text(_LAUNCHER.format(module=module, name=name), encoding="utf-8")
        return Launch(str(launcher), (importable,))

    def _importable(self, path: Path) -> Path:
        """Returns the file under a name by which Python's tools know that it is a zip file."""
        if path.suffix == ".zip":
            return path
        other = path.with_name(f".{path.name}.zip")
        if not other.exists():
            os.link(path, other)
        return other

    def _paths(self) -> list[Path]:
        return [path for path in self._directory.iterdir() if _ID.fullmatch(path.name) and path.suffix in SUFFIXES]


def upload_directory(configured: str) -> Path:
    """Returns the directory of programs inside `web.upload.dir`. Nobody else may write there: its files are run.

    Raises: PrivateDirectoryError, OSError.
    """
    root = Path(configured).expanduser()
    root.mkdir(parents=True, exist_ok=True)
    with PrivateDirectory.make(root, DIRECTORY) as directory:
        return directory.path


def entry_points(path: Path) -> tuple[tuple[str, str], ...]:
    """Returns the entry points of a program, each with a description."""
    if path.suffix == ".py":
        return (("__main__", "the script"),)
    if path.suffix == ".whl":
        return tuple(sorted(_console_scripts(path).items()))
    try:
        with zipfile.ZipFile(path) as archive:
            has_main = "__main__.py" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        has_main = False
    return (("__main__", "__main__.py of the archive"),) if has_main else ()


def _console_scripts(path: Path) -> dict[str, str]:
    """Returns `module:function` of each console script of a wheel, by its name."""
    if path.suffix != ".whl":
        return {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(".dist-info/entry_points.txt")]
            if not members or members[0].file_size > _MAX_METADATA_BYTES:
                return {}
            with archive.open(members[0]) as file:
                text = file.read(_MAX_METADATA_BYTES).decode("utf-8")
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[assignment]
        parser.read_string(text)
    except (OSError, ValueError, zipfile.BadZipFile, configparser.Error, NotImplementedError):
        return {}
    if not parser.has_section("console_scripts"):
        return {}
    return {name: value.partition("[")[0].strip() for name, value in parser.items("console_scripts")}
