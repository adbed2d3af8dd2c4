"""Names of streams in requests to Kinesis, and the errors of requests that fail."""

from __future__ import annotations

from flinkpy.common.errors import KinesisError
from flinkpy.connectors.aws.client import code_of


def stream_argument(stream: str) -> dict[str, str]:
    """Returns the argument of requests that names a stream, by name or ARN."""
    return {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}


def kinesis_error(what: str, error: BaseException) -> KinesisError:
    return KinesisError(f"{what}: {type(error).__name__}: {error}", details={"code": code_of(error)})
