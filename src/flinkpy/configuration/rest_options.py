"""Options of the REST server and of the dashboard that it serves.

Source: org.apache.flink.configuration.{RestOptions,WebOptions,SecurityOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    int_option,
    list_option,
    memory_option,
    string_option,
)

DEFAULT_PORT = 8081

ENABLED = bool_option(
    "rest.enabled", True, "Serve the REST API and the dashboard. The cluster inside a program serves them only if set."
)
ADDRESS = string_option(
    "rest.address",
    None,
    "Host under which browsers and programs reach the REST server. Default: the address it is bound to.",
)
PORT = int_option(
    "rest.port",
    DEFAULT_PORT,
    "Port of the REST server. 0 chooses a free port. If it is not set and 8081 is taken, a free port is chosen.",
    minimum=0,
    maximum=65535,
)
BIND_ADDRESS = string_option(
    "rest.bind-address", None, "Address that the REST server binds to. Default: the loopback address."
)
BIND_PORT = string_option(
    "rest.bind-port",
    str(DEFAULT_PORT),
    "Ports that the REST server tries to bind, in this order: a list of ports and ranges such as `8081,50100-50200`.",
)
AUTHENTICATION = enum_option(
    "rest.authentication",
    ("token", "none"),
    "token",
    "Who may use the REST server: `token` requires a token of the cluster or a session of the dashboard, `none` admits "
    "every process of this host and is refused for addresses that other hosts can reach.",
)
ALLOWED_HOSTS = list_option(
    "rest.allowed-hosts",
    (),
    "Further names under which browsers may reach the REST server, e.g. that of a proxy. Requests with another name in "
    "their `Host` header are refused, unless they carry a token.",
)
MAX_CONTENT_LENGTH = int_option(
    "rest.server.max-content-length", 104_857_600, "Maximum size of a request in bytes.", minimum=1
)
MAX_CONNECTIONS = int_option(
    "rest.server.max-connections", 2_000, "Maximum number of open connections. Others get status 503.", minimum=1
)
ASYNC_STORE_DURATION = duration_option(
    "rest.async.store-duration",
    "5 min",
    "How long the result of an asynchronous operation, e.g. of a savepoint, can be asked for.",
    minimum_ms=1,
)
SUBMIT_ENABLED = bool_option("web.submit.enable", True, "Allow to upload and run programs through the REST server.")
CANCEL_ENABLED = bool_option("web.cancel.enable", True, "Allow to cancel jobs in the dashboard.")
RESCALE_ENABLED = bool_option("web.rescale.enable", True, "Allow to change the parallelism of jobs in the dashboard.")
REFRESH_INTERVAL = duration_option(
    "web.refresh-interval", "3 s", "How often the dashboard asks for new values.", minimum_ms=1
)
CACHED_JOB_TIMEOUT = duration_option(
    "rest.cache.execution-graph.timeout",
    None,
    "How old the details of a job may be that the REST server shows. Default: `web.refresh-interval`.",
    minimum_ms=0,
)
CACHED_CHECKPOINTS_TIMEOUT = duration_option(
    "rest.cache.checkpoint-statistics.timeout",
    "3 s",
    "How old the statistics of checkpoints may be that the REST server shows.",
    minimum_ms=0,
)
CACHED_CHECKPOINTS_SIZE = int_option(
    "rest.cache.checkpoint-statistics.size",
    1_000,
    "How many answers about checkpoints the REST server keeps. It never keeps more than 128 answers of all kinds.",
    minimum=0,
)
UPLOAD_DIRECTORY = string_option(
    "web.upload.dir",
    None,
    "Directory of uploaded programs, which outlive the Dispatcher there. Default: a directory inside the working "
    "directory.",
)
MAX_UPLOADED = memory_option(
    "rest.upload.max-total-size", "1 gb", "Maximum size of all uploaded programs together.", minimum_bytes=1
)
FLAMEGRAPH_ENABLED = bool_option(
    "rest.flamegraph.enabled",
    True,
    "Allow flame graphs. TaskExecutors sample the stacks of their tasks only while somebody looks at one.",
)
FLAMEGRAPH_CLEANUP_INTERVAL = duration_option(
    "rest.flamegraph.cleanup-interval",
    "10 min",
    "Time after which the samples of a flame graph that nobody looks at are forgotten.",
    minimum_ms=1,
)
FLAMEGRAPH_REFRESH_INTERVAL = duration_option(
    "rest.flamegraph.refresh-interval",
    "1 min",
    "Time after which a flame graph that somebody looks at is sampled again.",
    minimum_ms=1,
)
FLAMEGRAPH_NUM_SAMPLES = int_option(
    "rest.flamegraph.num-samples", 100, "Number of samples of a flame graph.", minimum=1, maximum=10_000
)
FLAMEGRAPH_DELAY = duration_option(
    "rest.flamegraph.delay-between-samples",
    "50 ms",
    "Time between two samples. Samples that take too much CPU are taken more rarely.",
    minimum_ms=1,
)
FLAMEGRAPH_STACK_DEPTH = int_option(
    "rest.flamegraph.stack-depth",
    100,
    "Maximum number of frames of a stack. Of deeper stacks the innermost frames are shown.",
    minimum=1,
    maximum=250,
)
SSL_ENABLED = bool_option(
    "security.ssl.rest.enabled",
    False,
    "Serve the REST API with TLS. Without a key store, the certificate derived from the cluster secret is used.",
)
SSL_AUTHENTICATION_ENABLED = bool_option(
    "security.ssl.rest.authentication-enabled",
    False,
    "Require clients of the REST server to show a certificate that the trust store verifies.",
)
SSL_KEYSTORE = string_option(
    "security.ssl.rest.keystore",
    None,
    "File with the private key and the certificates of the REST server.",
    "security.ssl.keystore",
)
SSL_KEYSTORE_PASSWORD = string_option(
    "security.ssl.rest.keystore-password", None, "Password of the key store.", "security.ssl.keystore-password"
)
SSL_KEY_PASSWORD = string_option(
    "security.ssl.rest.key-password",
    None,
    "Password of the private key. Default: the password of the key store.",
    "security.ssl.key-password",
)
SSL_TRUSTSTORE = string_option(
    "security.ssl.rest.truststore",
    None,
    "File with the certificates of the authorities that sign the certificates of clients.",
    "security.ssl.truststore",
)
SSL_TRUSTSTORE_PASSWORD = string_option(
    "security.ssl.rest.truststore-password", None, "Password of the trust store.", "security.ssl.truststore-password"
)
SSL_KEYSTORE_TYPE = enum_option(
    "security.ssl.rest.keystore-type", ("PEM", "PKCS12"), None, "Format of the key store. Default: detected."
)
SSL_TRUSTSTORE_TYPE = enum_option(
    "security.ssl.rest.truststore-type", ("PEM", "PKCS12"), None, "Format of the trust store. Default: detected."
)
SSL_CERT_FINGERPRINT = string_option(
    "security.ssl.rest.cert.fingerprint",
    None,
    "SHA-1 or SHA-256 fingerprints, separated by commas. The certificate of a client must match one of them.",
)
