"""How remote file systems are reached. Source: org.apache.flink.fs.s3.common, org.apache.flink.core.fs.

Without these a file system finds its credentials by its own rules (environment, profile, role of the host).
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, string_option

S3_ACCESS_KEY = string_option("s3.access-key", None, "Access key for S3.", "s3.access.key")
S3_SECRET_KEY = string_option("s3.secret-key", None, "Secret key for S3.", "s3.secret.key")
S3_SESSION_TOKEN = string_option("s3.session-token", None, "Session token of temporary S3 credentials.")
S3_ENDPOINT = string_option("s3.endpoint", None, "Endpoint of an S3-compatible store, e.g. `http://localhost:9000`.")
S3_REGION = string_option("s3.endpoint.region", None, "Region of S3.", "s3.region")
S3_PATH_STYLE_ACCESS = bool_option(
    "s3.path.style.access",
    False,
    "Put the bucket name into the path instead of the host name. Most S3-compatible stores other than AWS need this.",
    "s3.path-style-access",
)
