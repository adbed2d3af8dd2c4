"""Protocol versions: which ones this release speaks, and how two processes agree on one.

The protocol is the meaning of the messages in the proto files. Its version is independent of the release, because most
releases do not change it. A release speaks the versions from `MIN_PROTOCOL` to `PROTOCOL`. Every call carries the
caller's range and release. Every answer carries the version that is used: the newest one that both sides speak.

| metadata of the caller         | answer                                                       |
|--------------------------------|--------------------------------------------------------------|
| a range that overlaps ours     | served; the answer names the newest common version           |
| a range that does not          | VersionMismatchError, which names both releases              |
| a release, but no range        | served as version 1, if this release still speaks it         |
| nothing (another language)     | served as the newest version of the proto files              |

PROTOCOL is raised when a message gets a new meaning that an older peer would misunderstand. A sender checks the peer's
version (`Gateway.protocol`, `CallContext.protocol`) before it uses the new form. A new field or call that an older peer
may ignore needs no new version. MIN_PROTOCOL is raised when an old form is no longer understood.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flinkpy import __version__
from flinkpy.common.errors import VersionMismatchError

#: The newest version this release speaks.
PROTOCOL = 1
#: The oldest version this release still speaks.
MIN_PROTOCOL = 1

#: gRPC metadata: the caller's range (`1-2`) in a call, the version used (`2`) in an answer.
METADATA_PROTOCOL = "flinkpy-protocol"
#: gRPC metadata of calls and answers: the sender's release.
METADATA_VERSION = "flinkpy-version"

_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class ProtocolRange:
    """The versions from `oldest` to `newest`, both inclusive."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest}-{self.newest}"

    @property
    def in_words(self) -> str:
        return str(self.newest) if self.oldest == self.newest else f"{self.oldest} to {self.newest}"

    def newest_common(self, other: ProtocolRange) -> int | None:
        """Returns the newest version of both ranges, or None."""
        newest = min(self.newest, other.newest)
        return newest if newest >= max(self.oldest, other.oldest) else None


OURS = ProtocolRange(MIN_PROTOCOL, PROTOCOL)

#: The metadata that a process of this release sends with every call.
CALLER_METADATA: tuple[tuple[str, str], ...] = ((METADATA_VERSION, __version__), (METADATA_PROTOCOL, str(OURS)))


def negotiate(
    said: str | None, release: str | None, *, ours: ProtocolRange = OURS, our_release: str = __version__
) -> int:
    """Returns the version to use with a caller.

    Args:
        said: the caller's METADATA_PROTOCOL, or None.
        release: the caller's release, or None.

    Raises: VersionMismatchError.
    """
    if said is None:
        if release is None:
            return ours.newest
        said = "1-1"
    match = _RANGE.fullmatch(said)
    theirs = None if match is None else ProtocolRange(int(match[1]), int(match[2]))
    common = None if theirs is None else ours.newest_common(theirs)
    if common is None:
        words = repr(said[:40]) if theirs is None else theirs.in_words
        raise _mismatch("the caller", release, words, "the service", our_release, ours.in_words)
    return common


def agreed(metadata: Iterable[tuple[str, Any]] | None, where: str, *, ours: ProtocolRange = OURS) -> int:
    """Returns the version of an answer of the service at `where`; an answer without one has version 1.

    Raises: VersionMismatchError if this release does not speak that version.
    """
    said, release = "1", None
    for key, value in metadata or ():
        if key == METADATA_PROTOCOL:
            said = str(value)
        elif key == METADATA_VERSION:
            release = str(value)
    version = int(said) if said.isdecimal() and len(said) < 10 else 0
    if not ours.oldest <= version <= ours.newest:
        raise _mismatch("this process", __version__, ours.in_words, f"the service at {where}", release, said[:40])
    return version


def answer_metadata(protocol: int) -> tuple[tuple[str, str], ...]:
    """Returns the metadata that a service sends with every answer."""
    return ((METADATA_VERSION, __version__), (METADATA_PROTOCOL, str(protocol)))


def are_compatible_releases(one: str, other: str) -> bool:
    """True if the releases can exchange pickles and messages: they differ in their last number only."""
    return bool(one) and one.split(".")[:2] == other.split(".")[:2]


def _mismatch(
    caller: str, caller_release: str | None, caller_speaks: str, service: str, service_release: str | None, speaks: str
) -> VersionMismatchError:
    return VersionMismatchError(
        f"{caller} runs flinkpy {caller_release or '(unknown)'} and speaks protocol {caller_speaks}, {service} runs "
        f"flinkpy {service_release or '(unknown)'} and speaks protocol {speaks}: install the same release on both "
        "sides, or upgrade through a release that speaks both",
        details={"caller": caller_release or "", "service": service_release or ""},
    )
