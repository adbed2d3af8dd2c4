"""Creates AWS clients from Flink's properties, and classifies their errors.

Source: org.apache.flink.connector.aws.config.AWSConfigConstants, org.apache.flink.connector.aws.util.AWSGeneralUtil.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError

REGION = "aws.region"
ENDPOINT = "aws.endpoint"
PROVIDER = "aws.credentials.provider"
ACCESS_KEY = "aws.credentials.provider.basic.accesskeyid"
SECRET_KEY = "aws.credentials.provider.basic.secretkey"
PROFILE = "aws.credentials.provider.profile.name"
TRUST_ALL = "aws.trust.all.certificates"

#: Providers that boto3 supports: its own chain (AUTO), and those that name one source of credentials.
_PROVIDERS = ("AUTO", "BASIC", "ENV_VAR", "PROFILE", "WEB_IDENTITY_TOKEN")
_RETRYABLE = (
    "ProvisionedThroughputExceeded",
    "LimitExceeded",
    "Throttling",
    "RequestLimitExceeded",
    "InternalFailure",
    "InternalServer",
    "ServiceUnavailable",
    "KMSThrottling",
)


def load_boto3() -> Any:
    try:
        import boto3
    except ImportError as error:
        raise UnsupportedOperationError("AWS needs its client: pip install 'flinkpy[kinesis]'") from error
    return boto3


def check_properties(properties: Mapping[str, str]) -> None:
    """Checks region, endpoint and credentials. Raises: ConfigurationError."""
    if not properties.get(REGION) and not properties.get(ENDPOINT):
        raise ConfigurationError(f"AWS: {REGION} or {ENDPOINT} must be set")
    provider = _provider(properties)
    if provider not in _PROVIDERS:
        raise ConfigurationError(
            f"AWS: {PROVIDER} must be one of {', '.join(_PROVIDERS)}, not {provider!r}; for a role use PROFILE, "
            "with a profile of ~/.aws/config that has role_arn"
        )
    if provider == "BASIC" and not (properties.get(ACCESS_KEY) and properties.get(SECRET_KEY)):
        raise ConfigurationError(f"AWS: {PROVIDER} BASIC needs {ACCESS_KEY} and {SECRET_KEY}")


def new_client(service: str, properties: Mapping[str, str], max_connections: int = 10) -> Any:
    """Creates a client of boto3, which any thread may use.

    Raises: UnsupportedOperationError if boto3 is not installed; ConfigurationError.
    """
    boto3 = load_boto3()
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    check_properties(properties)
    provider = _provider(properties)
    credentials = {}
    if provider == "BASIC":
        credentials = {
            "aws_access_key_id": properties[ACCESS_KEY],
            "aws_secret_access_key": properties[SECRET_KEY],
        }
    try:
        session = boto3.Session(
            profile_name=properties.get(PROFILE, "default") if provider == "PROFILE" else None, **credentials
        )
        return session.client(
            service,
            # With an endpoint no region is needed, but boto3 signs requests for one.
            region_name=properties.get(REGION) or session.region_name or "us-east-1",
            endpoint_url=properties.get(ENDPOINT) or None,
            verify=False if properties.get(TRUST_ALL, "").lower() == "true" else None,
            config=Config(max_pool_connections=max_connections, retries={"mode": "standard"}),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigurationError(f"AWS: cannot create a client of {service}: {error}") from error


def code_of(error: BaseException) -> str:
    """Returns the error code in an answer of AWS, or an empty string if there was no answer."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def is_retryable_code(code: str) -> bool:
    return code.startswith(_RETRYABLE)


def is_retryable(error: BaseException) -> bool:
    """True if the same request may succeed later, because AWS is too busy or did not answer."""
    from botocore.exceptions import ConnectionError as AwsConnectionError
    from botocore.exceptions import HTTPClientError

    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return is_retryable_code(code_of(error)) or status >= 500
    return isinstance(error, (AwsConnectionError, HTTPClientError))


def client_errors() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)


def _provider(properties: Mapping[str, str]) -> str:
    given = properties.get(PROVIDER, "").upper()
    if given in ("", "AUTO") and properties.get(ACCESS_KEY) and properties.get(SECRET_KEY):
        return "BASIC"
    return given or "AUTO"
