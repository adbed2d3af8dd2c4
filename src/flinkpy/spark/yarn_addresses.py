"""Reads where YARN is from the directory of Hadoop's configuration, to check at once whether it answers."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

_MANAGER = "yarn.resourcemanager"
_PORT = 8032
#: A host that means "not configured".
_ANY = "0.0.0.0"


def resource_manager_addresses(directory: Path) -> list[str]:
    """Returns the addresses of the ResourceManagers of YARN: one, or several of which one is active.

    Returns none if the configuration does not say them plainly, for example by variables of Java.
    """
    properties = _properties(directory / "yarn-site.xml")
    suffixes = [""]
    if properties.get(f"{_MANAGER}.ha.enabled", "").lower() == "true":
        suffixes = [f".{name.strip()}" for name in properties.get(f"{_MANAGER}.ha.rm-ids", "").split(",")]
    found = []
    for suffix in suffixes:
        host = properties.get(f"{_MANAGER}.hostname{suffix}", _ANY)
        address = properties.get(f"{_MANAGER}.address{suffix}", f"{host}:{_PORT}")
        if "${" in address or address.startswith(_ANY):
            return []
        found.append(address if ":" in address else f"{address}:{_PORT}")
    return found


def _properties(path: Path) -> dict[str, str]:
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return {}
    pairs = ((entry.findtext("name"), entry.findtext("value")) for entry in root.iter("property"))
    return {name.strip(): value.strip() for name, value in pairs if name and value}
