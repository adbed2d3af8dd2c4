"""The provider `openai`: asks a server with the HTTP interface of OpenAI for chat completions or embeddings.

Source: org.apache.flink.model.openai.{OpenAIModelProviderFactory, OpenAIOptions, OpenAIChatModelFunction,
OpenAIEmbeddingModelFunction}. Differs: `max-context-size` is not supported, because it needs OpenAI's tokenizer.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import ExternalError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.table.connectors.table_options import TableOptions
from flinkpy.table.models.model_provider import ModelContext, ModelProviderFactory, PredictFunction

if TYPE_CHECKING:
    from flinkpy.table.models.model_provider import Predictions


def _text(key: str, description: str, *older: str) -> ConfigOption[str | None]:
    return ConfigOption(key, OptionType.STRING, None, description, fallback_keys=older)


def _number(key: str, description: str, *older: str) -> ConfigOption[float | None]:
    return ConfigOption(key, OptionType.FLOAT, None, description, fallback_keys=older)


def _count(key: str, description: str, *older: str) -> ConfigOption[int | None]:
    return ConfigOption(key, OptionType.INT, None, description, fallback_keys=older)


ENDPOINT = _text("endpoint", "The full URL, which ends with /chat/completions or /embeddings.")
API_KEY = _text("api-key", "The key that is sent as a bearer token.")
MODEL = _text("model", "The name of the model.")
ERROR_HANDLING_STRATEGY: ConfigOption[str] = ConfigOption(
    "error-handling-strategy",
    OptionType.ENUM,
    "retry",
    "What happens if a request fails: it is repeated, the job fails, or the row has no prediction.",
    choices=("retry", "failover", "ignore"),
)
RETRY_NUM: ConfigOption[int] = ConfigOption(
    "retry-num", OptionType.INT, 100, "Most repetitions of a request.", minimum=0
)
RETRY_FALLBACK_STRATEGY: ConfigOption[str] = ConfigOption(
    "retry-fallback-strategy",
    OptionType.ENUM,
    "failover",
    "What happens after the last repetition.",
    choices=("failover", "ignore"),
)
SYSTEM_PROMPT: ConfigOption[str] = ConfigOption(
    "system-prompt",
    OptionType.STRING,
    "You are a helpful assistant.",
    "The system message of a chat.",
    fallback_keys=("systemPrompt",),
)
RESPONSE_FORMAT: ConfigOption[str | None] = ConfigOption(
    "response-format", OptionType.ENUM, None, "The format of the answer.", choices=("text", "json_object")
)
STOP = _text("stop", "The texts that end an answer, separated by commas.")
#: Options that become a field of the same name in the request of a chat.
_CHAT_FIELDS: dict[str, ConfigOption[Any]] = {
    "temperature": _number("temperature", "The randomness of answers."),
    "top_p": _number("top-p", "The probability from which tokens are chosen.", "topP"),
    "max_tokens": _count("max-tokens", "Most tokens of an answer.", "maxTokens"),
    "presence_penalty": _number("presence-penalty", "How much repetition is avoided."),
    "n": _count("n", "The number of answers, each of which becomes a row."),
    "seed": _count("seed", "Makes answers repeatable where the server can."),
}
DIMENSION = _count("dimension", "The length of an embedding.")

_CHAT, _EMBEDDINGS = "chat/completions", "embeddings"
#: Metadata of a prediction that failed, by key, and the types of the columns.
_METADATA: dict[str, lt.LogicalType] = {
    "error-string": lt.VarCharType(),
    "http-status-code": lt.IntType(),
    "http-headers-map": lt.MapType(lt.VarCharType(), lt.ArrayType(lt.VarCharType())),
}
#: The pauses between attempts double from the first to the last one, as in OpenAI's clients.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0
#: Answers that another attempt may change. Source: com.openai.core.http.RetryingHttpClient.
_TRANSIENT = frozenset({408, 409, 429})
_LONGEST_SHOWN = 300


class OpenAIModelProviderFactory(ModelProviderFactory):
    """Makes the functions of models with 'provider' = 'openai'."""

    identifier = "openai"
    required_options = (ENDPOINT, API_KEY, MODEL)
    optional_options = (
        ERROR_HANDLING_STRATEGY,
        RETRY_NUM,
        RETRY_FALLBACK_STRATEGY,
        SYSTEM_PROMPT,
        STOP,
        RESPONSE_FORMAT,
        *_CHAT_FIELDS.values(),
        DIMENSION,
    )
    is_asynchronous = True

    def create_predict_function(self, model: ModelContext, concurrency: int, timeout_ms: int) -> PredictFunction:
        endpoint = str(model.options.get(ENDPOINT)).rstrip("/")
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValidationError(f"The option 'endpoint' of model '{model.name}' is not a URL: {endpoint}")
        task = next((each for each in (_CHAT, _EMBEDDINGS) if endpoint.endswith(each)), None)
        if task is None:
            raise ValidationError(
                f"The option 'endpoint' of model '{model.name}' must end with {_CHAT} or {_EMBEDDINGS}: {endpoint}",
                details={"option": ENDPOINT.key, "value": endpoint},
            )
        predicted: lt.LogicalType = lt.VarCharType() if task == _CHAT else lt.ArrayType(lt.FloatType())
        _check_columns(model, task, predicted)
        return OpenAIPredictFunction(model, endpoint, task, _Attempts.of(model.options, timeout_ms), concurrency)


def _check_columns(model: ModelContext, task: str, predicted: lt.LogicalType) -> None:
    inputs = [(each.name, each.type) for each in model.inputs.fields]
    if len(inputs) != 1 or not isinstance(inputs[0][1], (lt.VarCharType, lt.CharType)):
        raise ValidationError(
            f"Model '{model.name}' for {task} needs one input column of type STRING, not "
            f"({', '.join(f'{name} {kind}' for name, kind in inputs)})."
        )
    outputs = model.predicted
    if len(outputs) != 1 or arrow_type_of(outputs[0][1]) != arrow_type_of(predicted):
        raise ValidationError(
            f"Model '{model.name}' for {task} needs one output column of type {predicted}, not "
            f"({', '.join(f'{name} {kind}' for name, kind in outputs)})."
        )
    types = {each.name: each.type for each in model.outputs.fields}
    for name, key in model.output_metadata.items():
        wanted = _METADATA.get(key)
        if wanted is None:
            raise ValidationError(
                f"Model '{model.name}' has no metadata '{key}' of column {name}. There are: {', '.join(_METADATA)}."
            )
        if arrow_type_of(types[name]) != arrow_type_of(wanted):
            raise ValidationError(
                f"The metadata '{key}' of model '{model.name}' has the type {wanted}, not {types[name]}."
            )


@dataclass(frozen=True)
class _Attempts:
    """How often a request is made, and what happens then.

    Attributes:
        most: the number of attempts.
        is_ignored: True if a row without an answer is left out, or has the error in its metadata; else the job fails.
    """

    most: int
    is_ignored: bool
    timeout_s: float

    @staticmethod
    def of(options: TableOptions, timeout_ms: int) -> _Attempts:
        strategy = options.get(ERROR_HANDLING_STRATEGY)
        is_repeated = strategy == "retry"
        fallback = options.get(RETRY_FALLBACK_STRATEGY) if is_repeated else strategy
        return _Attempts(options.get(RETRY_NUM) + 1 if is_repeated else 1, fallback == "ignore", timeout_ms / 1000)


@dataclass(frozen=True)
class _Answer:
    """The predictions for one row; or the failure, with the status and headers if the server answered."""

    values: Sequence[Any] = ()
    error: str | None = None
    status: int | None = None
    headers: tuple[tuple[str, list[str]], ...] | None = None


class OpenAIPredictFunction(PredictFunction):
    """Sends a request per row, several at a time. NULL has no prediction.

    Thread: the task thread calls it; requests run in threads of its own.
    """

    def __init__(self, model: ModelContext, endpoint: str, task: str, attempts: _Attempts, concurrency: int) -> None:
        self._model = model
        self._parts = urlsplit(endpoint)
        self._task = task
        self._attempts = attempts
        self._concurrency = concurrency
        self._fields = _request_fields(model.options, task)
        self._threads: ThreadPoolExecutor | None = None
        self._closed: threading.Event | None = None

    def open(self, context: FunctionContext) -> None:
        self._closed = threading.Event()
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="openai")

    def close(self) -> None:
        if self._closed is not None:
            self._closed.set()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def predict(self, columns: list[pa.Array], num_rows: int) -> Predictions:
        assert self._threads is not None
        answers = list(self._threads.map(self._answer, columns[0].to_pylist()))
        has_metadata = bool(self._model.output_metadata)
        rows: list[int] = []
        values: list[Any] = []
        for row, answer in enumerate(answers):
            found = answer.values or ((None,) if answer.error is not None and has_metadata else ())
            rows += [row] * len(found)
            values += found
        columns_of = {key: [getattr(answers[row], name) for row in rows] for key, name in _ANSWER_FIELDS.items()}
        outputs = []
        for field in self._model.outputs.fields:
            key = self._model.output_metadata.get(field.name)
            outputs.append(pa.array(values if key is None else columns_of[key], arrow_type_of(field.type)))
        return np.array(rows, dtype=np.int64), outputs

    def _answer(self, text: str | None) -> _Answer:
        """Returns the predictions for a text. Raises: ExternalError if there is none, unless that is ignored."""
        assert self._closed is not None
        if text is None:
            return _Answer()
        deadline = time.monotonic() + self._attempts.timeout_s
        pause_s, last = _FIRST_PAUSE_S, _Answer(error="no attempt was made")
        for attempt in range(self._attempts.most):
            last, is_transient = self._attempt(text, deadline)
            if last.error is None:
                return last
            is_last = attempt + 1 == self._attempts.most or time.monotonic() + pause_s >= deadline
            if is_last or not is_transient or self._closed.wait(pause_s):
                break
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if self._attempts.is_ignored:
            return last
        raise ExternalError(
            f"the model {self._model.name} at {self._parts.netloc} gave no prediction: {last.error}",
            details={"model": self._model.name},
        )

    def _attempt(self, text: str, deadline: float) -> tuple[_Answer, bool]:
        """Returns an answer, and if another attempt could change it."""
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return _Answer(error=f"no answer within {self._attempts.timeout_s:g} s"), False
        try:
            status, headers, body = self._post(text, remaining_s)
        except (OSError, http.client.HTTPException) as error:
            return _Answer(error=f"{type(error).__name__}: {error}"), True
        if 200 <= status < 300:
            try:
                return _Answer(_values(self._task, json.loads(body))), False
            except (ValueError, LookupError, TypeError) as error:
                return _Answer(error=f"the answer is not that of {self._task}: {error!r}", status=status), False
        shown = body[:_LONGEST_SHOWN].decode(errors="replace").strip()
        failed = _Answer(error=f"HTTP {status}: {shown}", status=status, headers=headers)
        return failed, status in _TRANSIENT or status >= 500

    def _post(self, text: str, timeout_s: float) -> tuple[int, tuple[tuple[str, list[str]], ...], bytes]:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None
        connection = kind(self._parts.hostname, self._parts.port, timeout=timeout_s)
        path = self._parts.path + (f"?{self._parts.query}" if self._parts.query else "")
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self._model.options.get(API_KEY)}",
        }
        try:
            connection.request("POST", path, json.dumps(self._request(text)), headers)
            response = connection.getresponse()
            grouped: dict[str, list[str]] = {}
            for name, value in response.getheaders():
                grouped.setdefault(name, []).append(value)
            return response.status, tuple(grouped.items()), response.read()
        finally:
            connection.close()

    def _request(self, text: str) -> dict[str, Any]:
        if self._task == _EMBEDDINGS:
            return {**self._fields, "input": text}
        system = {"role": "system", "content": self._model.options.get(SYSTEM_PROMPT)}
        return {**self._fields, "messages": [system, {"role": "user", "content": text}]}


#: By the key of each metadata, the field of `_Answer`.
_ANSWER_FIELDS = {"error-string": "error", "http-status-code": "status", "http-headers-map": "headers"}


def _request_fields(options: TableOptions, task: str) -> dict[str, Any]:
    """Returns the part of a request that is equal for all rows."""
    fields: dict[str, Any] = {"model": options.get(MODEL)}
    if task == _EMBEDDINGS:
        if options.get(DIMENSION) is not None:
            fields["dimensions"] = options.get(DIMENSION)
        return fields
    fields |= {name: options.get(each) for name, each in _CHAT_FIELDS.items() if options.get(each) is not None}
    stop, response_format = options.get(STOP), options.get(RESPONSE_FORMAT)
    if stop is not None:
        fields["stop"] = stop.split(",")
    if response_format is not None:
        fields["response_format"] = {"type": response_format}
    return fields


def _values(task: str, answer: Any) -> list[Any]:
    """Returns the predictions in an answer. Raises: LookupError, TypeError if it has another form."""
    if task == _CHAT:
        return [choice["message"]["content"] for choice in answer["choices"]]
    return [each["embedding"] for each in answer["data"]]
