"""Options of leader election and of the storage that masters share.

Source: org.apache.flink.configuration.HighAvailabilityOptions,
org.apache.flink.runtime.highavailability.JobResultStoreOptions.
Differs: by default only clients with the cluster's secret can access the nodes in ZooKeeper (`acl` is `creator`, in
Flink `open`).
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    int_option,
    map_option,
    string_option,
)

MODES = ("NONE", "ZOOKEEPER")

HA_MODE = enum_option(
    "high-availability.type",
    MODES,
    "NONE",
    "Leader election and service discovery. NONE uses one Dispatcher and one ResourceManager at configured "
    "addresses; ZOOKEEPER elects leaders through ZooKeeper.",
)
HA_CLUSTER_ID = string_option(
    "high-availability.cluster-id",
    "/default",
    "Id of the cluster. It names the cluster's node below the root node and its directory below the storage "
    "directory, so each cluster needs its own.",
)
HA_STORAGE_PATH = string_option(
    "high-availability.storageDir",
    None,
    "Directory for JobGraphs, blobs and results, e.g. on a mounted volume. All masters must share it. ZooKeeper "
    "stores only pointers to it.",
)
ZOOKEEPER_QUORUM = string_option(
    "high-availability.zookeeper.quorum", None, "ZooKeeper servers as `host:port,host:port`."
)
ZOOKEEPER_ROOT = string_option(
    "high-availability.zookeeper.path.root", "/flink", "Root node; each cluster creates its own node below it."
)
ZOOKEEPER_EXECUTION_PLANS_PATH = string_option(
    "high-availability.zookeeper.path.execution-plans",
    "/execution-plans",
    "Node for accepted jobs, below the node of the cluster.",
)
ZOOKEEPER_SESSION_TIMEOUT = duration_option(
    "high-availability.zookeeper.client.session-timeout",
    "60 s",
    "Time without contact after which ZooKeeper ends a session and the leaderships held through it. The server may "
    "limit the value.",
    minimum_ms=1,
)
ZOOKEEPER_CONNECTION_TIMEOUT = duration_option(
    "high-availability.zookeeper.client.connection-timeout",
    "15 s",
    "Timeout for connecting to ZooKeeper.",
    minimum_ms=1,
)
ZOOKEEPER_RETRY_WAIT = duration_option(
    "high-availability.zookeeper.client.retry-wait", "5 s", "Pause before the first retry of a failed request."
)
ZOOKEEPER_MAX_RETRY_WAIT = duration_option(
    "high-availability.zookeeper.client.max-retry-wait",
    "60 s",
    "Maximum pause between two retries. The pause doubles with each retry.",
)
ZOOKEEPER_MAX_RETRY_ATTEMPTS = int_option(
    "high-availability.zookeeper.client.max-retry-attempts",
    3,
    "Maximum number of retries of a request that failed because of the connection.",
    minimum=0,
)
ZOOKEEPER_CLIENT_ACL = enum_option(
    "high-availability.zookeeper.client.acl",
    ("open", "creator"),
    None,
    "Who may read and write the cluster's nodes: `creator` allows clients with the cluster's secret or the same "
    "authorization, `open` allows everyone. Default: `creator`, or `open` if there is neither a secret nor an "
    "authorization.",
)
ZOOKEEPER_TOLERATE_SUSPENDED_CONNECTIONS = bool_option(
    "high-availability.zookeeper.client.tolerate-suspended-connections",
    False,
    "Keep a leadership while the connection to ZooKeeper is suspended, for at most two thirds of the session timeout.",
)
ZOOKEEPER_CLIENT_AUTHORIZATION = map_option(
    "high-availability.zookeeper.client.authorization",
    "Credentials for ZooKeeper in addition to the cluster's secret, as scheme and credentials, e.g. "
    "`digest:user:password`.",
)
ZOOKEEPER_SSL_ENABLED = bool_option(
    "high-availability.zookeeper.client.ssl.enabled",
    False,
    "Connect to ZooKeeper with mutual TLS, using the key store and trust store of `security.ssl.internal.*`. "
    "`high-availability.zookeeper.quorum` must then name the secure ports.",
)
ZOOKEEPER_SSL_SERVER_NAME = string_option(
    "high-availability.zookeeper.client.ssl.server-name",
    "flinkpy-zookeeper",
    "Name that the certificates of the ZooKeeper servers must contain. The default is the name that `flinkpy certs` "
    "uses. If empty, the certificate must contain the host in the quorum.",
)
ZOOKEEPER_MAX_CLOSE_WAIT = duration_option(
    "high-availability.zookeeper.client.max-close-wait",
    None,
    "Maximum time for closing the connection. Default: 5 s.",
)
JOB_RESULT_STORE_PATH = string_option(
    "job-result-store.storage-path",
    None,
    "Directory for the results of ended jobs. All masters must share it. Default: `job-result-store/<cluster-id>` "
    "in `high-availability.storageDir`.",
)
