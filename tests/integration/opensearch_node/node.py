"""A node of OpenSearch: a Java process on loopback, with the jars that pom.xml names and without its distribution."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maven_jars import require_jars
from requirements import has_java, require


class OpenSearchNode:
    """A running node. Attributes: url: the address of its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request with a JSON body, and returns the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def documents(self, index: str) -> dict[str, Any]:
        """Returns the documents of an index by their ids."""
        self.request("POST", f"{index}/_refresh")
        hits = self.request("GET", f"{index}/_search?size=1000")["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}


@contextmanager
def opensearch_node(directory: Path) -> Iterator[OpenSearchNode]:
    """Runs a node with its files in `directory`. Java compiles its one source file when it starts."""
    require("java", has_java(17), "Java 17")
    jars = require_jars("opensearch_node")
    source = Path(__file__).with_name("OpenSearchNode.java")
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(source), str(directory)]
    with (directory / "stderr.log").open("w") as log:
        node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    assert node.stdin is not None and node.stdout is not None
    try:
        url = node.stdout.readline().strip()
        assert url, f"OpenSearch did not start: {(directory / 'stderr.log').read_text()}"
        yield OpenSearchNode(url)
    finally:
        node.kill()
        node.wait()
        node.stdin.close()
        node.stdout.close()
