"""The files of the dashboard's page: names, caching, compression, and an installation without them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from rest_harness import RestHarness

from flinkpy.rest import application
from flinkpy.rest.page_files import PageFiles, accepts_gzip, is_known

SCRIPT = b"console.log('page')"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page as the build leaves it, which the application serves."""
    directory = tmp_path / "page"
    (directory / "assets").mkdir(parents=True)
    for name, content in (("index.html", b"<!doctype html><title>page</title>"), ("assets/index-1a2b.js", SCRIPT)):
        (directory / name).write_bytes(content)
        (directory / f"{name}.gz").write_bytes(gzip.compress(content))
    (directory / "secret.js").write_text("not an asset")
    monkeypatch.setattr(application, "PageFiles", lambda: PageFiles(directory))
    return directory


@pytest.mark.usefixtures("page")
def test_strangers_get_the_page_which_tells_nothing_of_the_cluster() -> None:
    answer = RestHarness().call("GET", "/", role=None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-cache"
    assert "script-src" not in answer.headers["content-security-policy"]  # `default-src 'self'` is for scripts
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert RestHarness().call("GET", "/", role=None, headers={"host": "evil.example"}).status_code == 403


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_assets_are_kept_for_ever_and_sent_as_the_browser_accepts_them(encoding: str) -> None:
    answer = RestHarness().call("GET", "/assets/index-1a2b.js", role=None, headers={"accept-encoding": encoding})
    assert (answer.content, answer.headers.get("content-encoding", "identity")) == (SCRIPT, encoding)
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (answer.headers["cache-control"], answer.headers["vary"]) == (
        "public, max-age=31536000, immutable",
        "accept-encoding",
    )


@pytest.mark.usefixtures("page")
def test_a_browser_that_has_the_page_gets_no_content() -> None:
    server = RestHarness()
    etag = server.call("GET", "/").headers["etag"]
    again = server.call("GET", "/", headers={"if-none-match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert server.call("GET", "/", headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    "name", ["none.js", "..%2fsecret.js", "..%2Fsecret.js", "%2e%2e/secret.js", "index-1a2b.js.gz", ".js", "a\\b.js"]
)
def test_only_files_of_the_page_are_served(name: str) -> None:
    assert RestHarness().call("GET", f"/assets/{name}").status_code == 404


def test_an_installation_without_the_page_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "PageFiles", lambda: PageFiles(tmp_path / "none"))
    answer = RestHarness().call("GET", "/")
    assert answer.status_code == 200 and "make dashboard" in answer.text


def test_a_browser_with_a_used_link_gets_words_and_a_program_json() -> None:
    server = RestHarness()
    page = server.call("GET", "/login?ticket=x", role=None, headers={"accept": "text/html,*/*;q=0.8"})
    assert page.status_code == 401 and "flinkpy dashboard" in page.text
    assert page.headers["content-type"].startswith("text/html")
    assert server.call("GET", "/login?ticket=x", role=None).json()["errors"]


def test_headers_of_browsers_are_understood() -> None:
    assert accepts_gzip("deflate, gzip;q=1.0, br") and accepts_gzip("*")
    assert not accepts_gzip("gzip;q=0, br") and not accepts_gzip("")
    assert is_known('"a"', 'W/"a", "b"') and is_known('"a"', "*") and not is_known('"a"', '"b"')
