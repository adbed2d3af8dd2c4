"""PageFiles: the files of the dashboard's page.

`make dashboard` builds them from `dashboard/` into the folder `page` of this package. The names of all files but
`index.html` contain a hash of their content, so browsers keep them for ever. Files lie there compressed as well.

The files are the same for everybody and contain nothing of a cluster. Anybody who reaches the server gets them; the
page shows nothing until the REST API lets the browser in.

Thread: any; reading blocks.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

PAGE_DIRECTORY = Path(__file__).with_name("page")

#: Browsers ask each time whether there is a newer one.
_REVALIDATED = "no-cache"
#: Content never changes under one name.
_KEPT = "public, max-age=31536000, immutable"
_ASSET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(js|css|svg|png|woff2)")
_MEDIA_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file and the headers of its answer."""

    content: bytes
    headers: dict[str, str]


class PageFiles:
    """Reads the files of the page.

    They are read for each request, because they may be built while the server runs. Browsers ask for an asset once.
    """

    def __init__(self, directory: Path = PAGE_DIRECTORY) -> None:
        self._directory = directory

    def index(self, accepts_gzip: bool) -> PageFile | None:
        """Returns the page itself; None if it has not been built."""
        return self._file(self._directory / "index.html", "text/html; charset=utf-8", _REVALIDATED, accepts_gzip)

    def asset(self, name: str, accepts_gzip: bool) -> PageFile | None:
        """Returns a script, a style sheet or a picture of the page; None if there is none of this name."""
        match = _ASSET_NAME.fullmatch(name)
        if match is None:
            return None
        return self._file(self._directory / "assets" / name, _MEDIA_TYPES[match[1]], _KEPT, accepts_gzip)

    def _file(self, path: Path, media_type: str, caching: str, accepts_gzip: bool) -> PageFile | None:
        compressed = path.with_name(f"{path.name}.gz")
        encoding = "gzip" if accepts_gzip and compressed.is_file() else None
        try:
            content = (compressed if encoding else path).read_bytes()
        except FileNotFoundError:
            return None
        headers = {
            "content-type": media_type,
            "cache-control": caching,
            "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "vary": "accept-encoding",
        }
        if encoding is not None:
            headers["content-encoding"] = encoding
        return PageFile(content, headers)


def accepts_gzip(accept_encoding: str) -> bool:
    """True if a header `Accept-Encoding` allows gzip."""
    for part in accept_encoding.split(","):
        name, _, parameters = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def is_known(etag: str, if_none_match: str) -> bool:
    """True if the header `If-None-Match` says that the client has the file."""
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in tags or "*" in tags
