"""Leader election, and what masters leave for their successors.

Source: org.apache.flink.configuration.HighAvailabilityOptions,
org.apache.flink.runtime.highavailability.JobResultStoreOptions.
Differs: nodes in ZooKeeper belong to the cluster's secret by default (`acl` is `creator`, Flink: `open`).
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
    "Where leaders are elected and found: NONE has one Dispatcher and one ResourceManager at configured addresses.",
)
HA_CLUSTER_ID = string_option(
    "high-availability.cluster-id",
    "/default",
    "Name of the cluster below the root node and below the storage directory; each cluster needs its own.",
)
HA_STORAGE_PATH = string_option(
    "high-availability.storageDir",
    None,
    "Directory that all masters share, e.g. a mounted volume: JobGraphs, blobs and results. ZooKeeper holds pointers.",
)
ZOOKEEPER_QUORUM = string_option(
    "high-availability.zookeeper.quorum", None, "Servers of ZooKeeper: `host:port,host:port`."
)
ZOOKEEPER_ROOT = string_option(
    "high-availability.zookeeper.path.root", "/flink", "Node below which every cluster has its own."
)
ZOOKEEPER_EXECUTION_PLANS_PATH = string_option(
    "high-availability.zookeeper.path.execution-plans",
    "/execution-plans",
    "Node of the accepted jobs, below that of the cluster.",
)
ZOOKEEPER_SESSION_TIMEOUT = duration_option(
    "high-availability.zookeeper.client.session-timeout",
    "60 s",
    "Time without contact after which ZooKeeper ends a session, and with it a leadership; the server bounds it.",
    minimum_ms=1,
)
ZOOKEEPER_CONNECTION_TIMEOUT = duration_option(
    "high-availability.zookeeper.client.connection-timeout",
    "15 s",
    "Time in which a connection to ZooKeeper must come about.",
    minimum_ms=1,
)
ZOOKEEPER_RETRY_WAIT = duration_option(
    "high-availability.zookeeper.client.retry-wait", "5 s", "Pause before the first repetition of a failed request."
)
ZOOKEEPER_MAX_RETRY_WAIT = duration_option(
    "high-availability.zookeeper.client.max-retry-wait",
    "60 s",
    "Longest pause between repetitions; it doubles from one to the next.",
)
ZOOKEEPER_MAX_RETRY_ATTEMPTS = int_option(
    "high-availability.zookeeper.client.max-retry-attempts",
    3,
    "How often a request is repeated that failed because of the connection.",
    minimum=0,
)
ZOOKEEPER_CLIENT_ACL = enum_option(
    "high-availability.zookeeper.client.acl",
    ("open", "creator"),
    None,
    "Who may read and write the cluster's nodes: `creator` is whoever has its secret (or the same authorization), "
    "`open` anybody. Unset: `creator`, unless there is neither secret nor authorization.",
)
ZOOKEEPER_TOLERATE_SUSPENDED_CONNECTIONS = bool_option(
    "high-availability.zookeeper.client.tolerate-suspended-connections",
    False,
    "Whether a leader goes on while its connection is suspended, for two thirds of the session time-out at most.",
)
ZOOKEEPER_CLIENT_AUTHORIZATION = map_option(
    "high-availability.zookeeper.client.authorization",
    "What connections show ZooKeeper, beside the cluster's secret: scheme to credentials, e.g. `digest:user:password`.",
)
ZOOKEEPER_SSL_ENABLED = bool_option(
    "high-availability.zookeeper.client.ssl.enabled",
    False,
    "Whether ZooKeeper is spoken to with mutual TLS, with the key store and the trust store of "
    "`security.ssl.internal.*`; `quorum` then names its secure ports.",
)
ZOOKEEPER_SSL_SERVER_NAME = string_option(
    "high-availability.zookeeper.client.ssl.server-name",
    "flinkpy-zookeeper",
    "Name that the certificates of ZooKeeper's servers must have: that which `flinkpy certs` gives them. Empty: that "
    "of the host in `quorum`.",
)
ZOOKEEPER_MAX_CLOSE_WAIT = duration_option(
    "high-availability.zookeeper.client.max-close-wait",
    None,
    "Time that closing the connection may take; 5 s where unset.",
)
JOB_RESULT_STORE_PATH = string_option(
    "job-result-store.storage-path",
    None,
    "Directory of the results of ended jobs, shared by all masters; `job-result-store/<cluster-id>` below "
    "high-availability.storageDir where unset.",
)
