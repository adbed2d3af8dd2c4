"""The provider `openai` against a server on this host."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.errors import ExternalError, ValidationError
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.models import openai
from flinkpy.table.models.registry import model_provider

CHAT = "INPUT (question STRING) OUTPUT (answer STRING"


class Server(ThreadingHTTPServer):
    """Answers with the texts in capitals, after the failures that a test asks for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, Any], str | None]] = []
        #: The status of each answer that is to be a failure.
        self.failures: list[int] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, request, self.headers["Authorization"]))
        status = self.server.failures.pop(0) if self.server.failures else 200
        body: Any = {"error": "no"}
        if status == 200 and self.path.endswith("embeddings"):
            body = {"data": [{"embedding": [0.5, float(len(request["input"]))]}]}
        elif status == 200:
            text = request["messages"][-1]["content"].upper()
            body = {"choices": [{"message": {"content": text}}] * request.get("n", 1)}
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(openai, "_FIRST_PAUSE_S", 0.001)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def predicted(
    server: Server, columns: str, texts: list[str | None], task: str = "chat/completions", **options: str
) -> tuple[list[int], list[list[Any]]]:
    """Returns the row of each prediction, and the columns."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    given = {"endpoint": f"http://127.0.0.1:{server.server_port}/v1/{task}", "api-key": "secret", "model": "m"}
    given |= {key.replace("_", "-"): value for key, value in options.items()}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    tables.execute_sql(f"CREATE MODEL m {columns}) WITH ('provider' = 'openai', {shown})")
    factory, model = model_provider(tables.planner._catalogs.models.get_model_or_error(("m",)))
    function = factory.create_predict_function(model, 3, 10_000)
    function.open(FunctionContext(None))
    try:
        rows, found = function.predict([pa.array(texts, pa.string())], len(texts))
    finally:
        function.close()
    return rows.tolist(), [each.to_pylist() for each in found]


def test_each_row_gets_the_answer_to_its_own_text(server: Server) -> None:
    rows, columns = predicted(
        server, CHAT, ["a", "b", None, "c"], system_prompt="Shout.", temperature="0.5", stop="x,y"
    )
    assert rows == [0, 1, 3] and columns == [["A", "B", "C"]]
    path, request, authorization = server.requests[0]
    assert path == "/v1/chat/completions" and authorization == "Bearer secret"
    assert request["model"] == "m" and request["temperature"] == 0.5 and request["stop"] == ["x", "y"]
    assert request["messages"][0] == {"role": "system", "content": "Shout."}


def test_several_answers_to_a_text_are_several_rows(server: Server) -> None:
    assert predicted(server, CHAT, ["a", "b"], n="2") == ([0, 0, 1, 1], [["A", "A", "B", "B"]])


def test_embeddings_are_arrays(server: Server) -> None:
    columns = "INPUT (question STRING) OUTPUT (vector ARRAY<FLOAT>"
    rows, found = predicted(server, columns, ["ab"], "embeddings", dimension="2")
    assert rows == [0] and found == [[[0.5, 2.0]]]
    assert server.requests[0][1] == {"model": "m", "input": "ab", "dimensions": 2}


def test_a_request_is_repeated_after_an_answer_that_may_change(server: Server) -> None:
    server.failures = [429, 503]
    assert predicted(server, CHAT, ["a"]) == ([0], [["A"]])
    assert len(server.requests) == 3


def test_a_job_fails_with_the_answer_of_the_server(server: Server) -> None:
    server.failures = [401]
    with pytest.raises(ExternalError, match=r"127.0.0.1:\d+ gave no prediction: HTTP 401: .*no"):
        predicted(server, CHAT, ["a"])
    server.failures = [503]
    with pytest.raises(ExternalError, match="HTTP 503"):
        predicted(server, CHAT, ["a"], error_handling_strategy="failover")


def test_a_row_without_an_answer_is_left_out_or_shows_the_error(server: Server) -> None:
    server.failures = [401]
    assert predicted(server, CHAT, ["a"], error_handling_strategy="ignore") == ([], [[]])
    server.failures = [503, 503]
    columns = f"{CHAT}, e STRING METADATA FROM 'error-string', s INT METADATA FROM 'http-status-code'"
    rows, found = predicted(server, columns, ["a"], retry_num="1", retry_fallback_strategy="ignore")
    assert rows == [0] and found[0] == [None] and "HTTP 503" in found[1][0] and found[2] == [503]


@pytest.mark.parametrize(
    ("columns", "task", "message"),
    [
        ("INPUT (question INT) OUTPUT (answer STRING", "chat/completions", "needs one input column of type STRING"),
        ("INPUT (question STRING) OUTPUT (answer INT", "chat/completions", "one output column of type STRING, not"),
        ("INPUT (question STRING) OUTPUT (answer STRING", "images", "must end with chat/completions or embeddings"),
        (f"{CHAT}, e STRING METADATA FROM 'color'", "chat/completions", "has no metadata 'color' of column e"),
        (f"{CHAT}, e INT METADATA FROM 'error-string'", "chat/completions", "has the type STRING, not INT"),
    ],
)
def test_columns_that_do_not_fit_the_task_are_named(server: Server, columns: str, task: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        predicted(server, columns, ["a"], task)
