"""docker-compose.yml as data: the command, mounts and ports of each service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
#: The entrypoint of our image; see Dockerfile.
ENTRYPOINT = ("tini", "--", "flinkpy")


@dataclass(frozen=True)
class Mount:
    """A volume of a service: a path of this project, a named volume, or None for a volume of the container itself."""

    source: str | None
    target: str
    is_writable: bool

    @property
    def is_named(self) -> bool:
        return self.source is not None and not self.source.startswith(".")


@dataclass(frozen=True)
class ComposeService:
    """A service of the file. `settings` are its entries."""

    name: str
    settings: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        return str(self.settings["image"]).partition(":")[0] in ("flinkpy", "flinkpy-spark")

    @property
    def is_default(self) -> bool:
        """True if `docker compose up` starts the service."""
        return not self.settings.get("profiles")

    @property
    def command(self) -> list[str]:
        """The command of the container, including the entrypoint. Defined only for images of this project."""
        return [*self.settings.get("entrypoint", ENTRYPOINT), *self.settings["command"]]

    @property
    def flinkpy_arguments(self) -> list[str] | None:
        """The arguments of `flinkpy` if the service runs it, otherwise None."""
        words = self.command
        return words[len(ENTRYPOINT) :] if tuple(words[: len(ENTRYPOINT)]) == ENTRYPOINT else None

    @property
    def environment(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.settings.get("environment", {}).items()}

    @property
    def mounts(self) -> list[Mount]:
        return [_mount(text) for text in self.settings.get("volumes", ())]

    @property
    def scratch(self) -> dict[str, str]:
        """The tmpfs mounts of the service, with their sizes."""
        return {path: options.split(",")[0].removeprefix("size=") for path, _, options in self._tmpfs()}

    def _tmpfs(self) -> Sequence[tuple[str, str, str]]:
        return [text.partition(":") for text in self.settings.get("tmpfs", ())]

    @property
    def replicas(self) -> int:
        return int(self.settings.get("deploy", {}).get("replicas", 1))

    @property
    def ports(self) -> list[str]:
        return list(self.settings.get("ports", ()))


def _mount(text: str) -> Mount:
    parts = text.split(":")
    if len(parts) == 1:
        return Mount(None, parts[0], True)
    return Mount(parts[0], parts[1], parts[2:] != ["ro"])


@cache
def document() -> dict[str, Any]:
    """Returns the file with all references resolved."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text())
    return loaded


def services() -> dict[str, ComposeService]:
    return {name: ComposeService(name, settings) for name, settings in document()["services"].items()}
