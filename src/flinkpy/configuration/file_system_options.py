"""How remote file systems are reached. Source: org.apache.flink.fs.s3.common, org.apache.flink.core.fs.

Without these a file system finds its credentials by its own rules (environment, profile, role of the host).
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, string_option

S3_ACCESS_KEY = string_option("s3.access-key", None, "Access key of S3.", "s3.access.key")
S3_SECRET_KEY = string_option("s3.secret-key", None, "Secret key of S3.", "s3.secret.key")
S3_SESSION_TOKEN = string_option("s3.session-token", None, "Session token of temporary credentials of S3.")
S3_ENDPOINT = string_option(
    "s3.endpoint", None, "Where a store with the interface of S3 is reached, e.g. `http://localhost:9000`."
)
S3_REGION = string_option("s3.endpoint.region", None, "Region of S3.", "s3.region")
S3_PATH_STYLE_ACCESS = bool_option(
    "s3.path.style.access",
    False,
    "Whether the bucket is part of the path instead of the host name, as most stores other than AWS want it.",
    "s3.path-style-access",
)
