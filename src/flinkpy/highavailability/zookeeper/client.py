"""ZooKeeperClient: the ZooKeeper session of one process.

It has blocking requests for stores and asynchronous ones for elections. Blocking requests are repeated after a failure
of the connection, so each must be correct when it is executed twice. Asynchronous requests call back on the loop, and
their callers repeat them.

Source: org.apache.flink.runtime.util.ZooKeeperUtils, org.apache.curator.framework.CuratorFramework.
Thread: blocking requests from any thread except the loop; the others from the loop. kazoo's threads only pass on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl_credential

from flinkpy.common.errors import HighAvailabilityError
from flinkpy.highavailability.zookeeper.kazoo_connection import PatientHandler, SessionFacts, keep_running
from flinkpy.highavailability.zookeeper.requests import (
    Check,
    ConnectionState,
    Create,
    Done,
    NodeMissingError,
    NodeThereError,
    Operation,
    RequestError,
    SetData,
)
from flinkpy.highavailability.zookeeper.server_sockets import ServerSockets
from flinkpy.highavailability.zookeeper.settings import ZooKeeperSettings

logger = logging.getLogger(__name__)

#: kazoo logs every attempt to connect, and credentials at its lowest level.
_kazoo_logger = logging.getLogger("flinkpy.highavailability.zookeeper.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

#: The longest pause between two attempts to connect.
_MAX_RECONNECT_DELAY_S = 1.0
_STATES = {
    KazooState.CONNECTED: ConnectionState.CONNECTED,
    KazooState.SUSPENDED: ConnectionState.SUSPENDED,
    KazooState.LOST: ConnectionState.LOST,
}
#: After these errors it is unknown whether the request was executed. It is repeated.
_UNCERTAIN = (ConnectionLoss, SessionExpiredError, SessionMovedError, OperationTimeoutError, KazooTimeoutError)

T = TypeVar("T")


class ZooKeeperClient:
    """The session of one process.

    Args:
        loop: listeners, watches and callbacks are called there; None if only blocking requests are made.
    """

    def __init__(self, settings: ZooKeeperSettings, loop: asyncio.AbstractEventLoop | None) -> None:
        self.settings = settings
        self._loop = loop
        self._listeners: list[Callable[[ConnectionState], None]] = []
        #: The state of the connection that the listeners know.
        self._loop_state = ConnectionState.LOST
        self._is_connected = threading.Event()
        self._closed = threading.Event()
        self._acl = list(OPEN_ACL_UNSAFE if settings.is_open else CREATOR_ALL_ACL)
        self._sockets = ServerSockets(settings)
        patience_s = max(settings.connection_timeout_s / len(settings.hosts), 0.2)
        self._kazoo = KazooClient(
            hosts=settings.quorum,
            timeout=settings.session_timeout_s,
            handler=PatientHandler(patience_s, self._sockets.secure),
            default_acl=self._acl,
            auth_data=list(settings.credentials),
            connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": _MAX_RECONNECT_DELAY_S},
            logger=_kazoo_logger,
        )
        self._session = SessionFacts(self._kazoo, settings.session_timeout_s, patience_s)
        keep_running(self._kazoo, self._closed)
        self._kazoo.add_listener(self._on_state)

    def connect(self) -> None:
        """Waits for the session. Raises: HighAvailabilityError with the state of each server, after a time-out."""
        connected = self._kazoo.start_async()
        if not connected.wait(self.settings.connection_timeout_s):
            self.close()
            told = "; ".join(self._sockets.probe(host, port) for host, port in self.settings.hosts)
            raise HighAvailabilityError(
                f"no connection to ZooKeeper at {self.settings.quorum} within "
                f"{self.settings.connection_timeout_s:g} s: {told}",
                details={"quorum": self.settings.quorum},
            )

    def close(self) -> None:
        """Ends the session and with it the ephemeral nodes. Blocks for a limited time. Idempotent."""
        if self._closed.is_set():
            return
        self._closed.set()
        # kazoo waits for its threads without limit, and one of them may be waiting for an unreachable host.
        closing = threading.Thread(target=self._stop, name="zookeeper-close", daemon=True)
        closing.start()
        closing.join(self.settings.close_wait_s)

    def _stop(self) -> None:
        try:
            self._kazoo.stop()
            self._kazoo.close()
        except Exception as error:  # noqa: BLE001 - the process ends anyway
            logger.debug("the connection to ZooKeeper was not closed in order: %r", error)

    # --- state

    @property
    def is_connected(self) -> bool:
        return self._loop_state is ConnectionState.CONNECTED

    @property
    def session_timeout_s(self) -> float:
        """The session time-out that the server has chosen. It may differ from the requested one."""
        return self._session.timeout_s

    @property
    def grace_left_s(self) -> float:
        return max(self._session.last_contact_s + self.session_timeout_s * 2 / 3 - time.monotonic(), 0)

    def add_listener(self, listener: Callable[[ConnectionState], None]) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[ConnectionState], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def _on_state(self, kazoo_state: str) -> None:
        """Thread: kazoo's connection."""
        state = _STATES[kazoo_state]
        if state is ConnectionState.CONNECTED:
            self._is_connected.set()
            logger.info("connected to ZooKeeper at %s", self.settings.quorum)
        else:
            self._is_connected.clear()
            if not self._closed.is_set():
                outcome = "is suspended" if state is ConnectionState.SUSPENDED else "has ended"
                logger.warning("the session with ZooKeeper at %s %s", self.settings.quorum, outcome)
        self._on_loop(lambda: self._tell(state))

    def _tell(self, state: ConnectionState) -> None:
        self._loop_state = state
        for listener in list(self._listeners):
            listener(state)

    def _on_loop(self, call: Callable[[], None]) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            logger.debug("an event of ZooKeeper came after the end of the loop")

    # --- blocking requests

    def sync(self, path: str) -> None:
        """Brings the server up to date, so that the next read sees all writes that have been acknowledged to others."""
        self._wait(lambda: self._kazoo.sync_async(path), f"synchronise {path}")

    def others_who_may_use(self, path: str) -> list[str]:
        """Returns the entries of the node's ACL that are not of this cluster, as `scheme:id`. No node: none.

        Digests are compared with those of this process. Only ZooKeeper knows the names of other schemes. Therefore
        entries of a scheme that this process uses, and of certificates if it uses TLS, count as its own.
        """
        try:
            answer: Any = self._wait(lambda: self._kazoo.get_acls_async(path), f"read the ACL of {path}")
        except NodeMissingError:
            return []
        return [f"{acl.id.scheme}:{acl.id.id}" for acl in answer[0] if not self._is_own(acl.id.scheme, acl.id.id)]

    def _is_own(self, scheme: str, name: str) -> bool:
        if scheme == "digest":
            own = (credential.partition(":") for kind, credential in self.settings.credentials if kind == "digest")
            return name in {make_digest_acl_credential(user, password) for user, _, password in own}
        if scheme == "x509":
            return self.settings.tls is not None
        return scheme in {kind for kind, _ in self.settings.credentials}

    def get_data(self, path: str) -> bytes | None:
        """Returns the data of the node; None if it does not exist."""
        try:
            data: bytes = self._wait(lambda: self._kazoo.get_async(path), f"read {path}")[0]
            return data
        except NodeMissingError:
            return None

    def exists_and_watch(self, path: str, changed: Callable[[], None]) -> bool:
        """Returns True if the node exists. Calls `changed` once when it may have changed, on one of kazoo's threads."""
        stat: Any = self._wait(lambda: self._kazoo.exists_async(path, watch=lambda event: changed()), f"read {path}")
        return stat is not None

    def get_children(self, path: str) -> list[str]:
        """Returns the names of the children; empty if the node does not exist."""
        try:
            return sorted(self._wait(lambda: self._kazoo.get_children_async(path), f"list {path}"))
        except NodeMissingError:
            return []

    def create(self, path: str, data: bytes) -> None:
        """Creates the node and its parents. Raises: NodeThereError, also if an earlier attempt has created it."""
        self._wait(lambda: self._kazoo.create_async(path, data, makepath=True), f"create {path}")

    def ensure(self, path: str, data: bytes = b"", *, is_shared: bool = False) -> None:
        """Creates the node if it does not exist. `is_shared`: other users may create children."""
        acl: list[ACL] | None = None
        if is_shared and not self.settings.is_open:
            acl = [*CREATOR_ALL_ACL, make_acl("world", "anyone", read=True, create=True)]
        try:
            self._wait(lambda: self._kazoo.create_async(path, data, acl=acl, makepath=True), f"create {path}")
        except NodeThereError:
            return

    def transact_and_wait(self, operations: Sequence[Operation], what: str) -> None:
        """Executes all operations or none. After a failure of the connection they may be executed again.

        Raises: NodeMissingError, NodeThereError, HighAvailabilityError.
        """
        self._wait(lambda: self._commit(operations), what, lambda results: _check_results(operations, results))

    def delete_tree(self, path: str) -> None:
        """Removes the node and everything below it. Idempotent. Raises: HighAvailabilityError."""
        for child in self.get_children(path):
            self.delete_tree(f"{path}/{child}")
        try:
            self._wait(lambda: self._kazoo.delete_async(path), f"remove {path}")
        except NodeMissingError:
            return

    def _wait(self, request: Callable[[], Any], what: str, finish: Callable[[Any], T] = lambda answer: answer) -> T:
        wait_s = self.settings.retry_wait_s
        for attempt in range(self.settings.max_retry_attempts + 1):
            if attempt:
                # Ends when the connection is back. The pause is for a server that is connected and fails.
                self._pause(min(wait_s, self.settings.max_retry_wait_s))
                wait_s *= 2
            try:
                return finish(request().get(timeout=self.settings.connection_timeout_s))
            except NoNodeError:
                raise NodeMissingError(what) from None
            except NodeExistsError:
                raise NodeThereError(what) from None
            except (NoAuthError, AuthFailedError):
                raise self.refusal(what) from None
            except ConnectionClosedError as error:
                failure: Exception = error
                if self._closed.is_set():
                    break
            except (*_UNCERTAIN, NotEmptyError) as error:
                failure = error
            except (KazooException, RequestError) as error:
                raise HighAvailabilityError(f"ZooKeeper refused to {what}: {error!r}") from error
        raise HighAvailabilityError(
            f"ZooKeeper at {self.settings.quorum} did not {what}: {type(failure).__name__}",
            details={"quorum": self.settings.quorum},
        ) from failure

    def _pause(self, seconds: float) -> None:
        if self._is_connected.is_set():
            self._closed.wait(min(seconds, 0.2))
            return
        self._is_connected.wait(seconds)

    def refusal(self, what: str) -> HighAvailabilityError:
        return HighAvailabilityError(
            f"ZooKeeper at {self.settings.quorum} does not let this process {what}: the nodes below "
            f"{self.settings.cluster} belong to a cluster with another secret or authorization; give this process the "
            "cluster's secret, or another high-availability.cluster-id",
            details={"path": self.settings.cluster},
        )

    def _commit(self, operations: Sequence[Operation]) -> Any:
        transaction = self._kazoo.transaction()
        for operation in operations:
            match operation:
                case Check(path):
                    transaction.check(path, -1)
                case Create(path, data, is_ephemeral):
                    transaction.create(path, data, ephemeral=is_ephemeral)
                case SetData(path, data):
                    transaction.set_data(path, data)
                case _:
                    transaction.delete(operation.path)
        return transaction.commit_async()

    # --- asynchronous requests

    def create_sequential(self, prefix: str, data: bytes, done: Done) -> None:
        self._request(
            lambda: self._kazoo.create_async(prefix, data, ephemeral=True, sequence=True, makepath=True),
            lambda path: path,
            prefix,
            done,
        )

    def children(self, path: str, done: Done) -> None:
        def answered(names: Any, error: Exception | None) -> None:
            done([], None) if isinstance(error, NodeMissingError) else done(names, error)

        self._request(lambda: self._kazoo.get_children_async(path), list, path, answered)

    def exists(self, path: str, watch: Callable[[], None] | None, done: Done) -> None:
        # kazoo reports answers and events by two threads. An event may therefore overtake the answer of its request.
        is_answered = False
        has_changed = False

        def on_event(event: Any) -> None:
            if event.type != EventType.NONE:
                self._on_loop(changed)

        def changed() -> None:
            nonlocal has_changed
            if not is_answered:
                has_changed = True
            elif watch is not None:
                watch()

        def answered(exists: Any, error: Exception | None) -> None:
            nonlocal is_answered
            is_answered = True
            done(exists, error)
            if has_changed:
                changed()

        watcher = on_event if watch is not None else None
        request = partial(self._kazoo.exists_async, path, watch=watcher)
        self._request(request, lambda stat: stat is not None, path, answered)

    def get(self, path: str, done: Done) -> None:
        self._request(lambda: self._kazoo.get_async(path), lambda answer: answer[0], path, done)

    def delete(self, path: str, done: Done) -> None:
        self._request(lambda: self._kazoo.delete_async(path), lambda answer: None, path, done)

    def transact(self, operations: Sequence[Operation], done: Done) -> None:
        def finish(results: Any) -> None:
            _check_results(operations, results)

        self._request(lambda: self._commit(operations), finish, operations[0].path, done)

    def _request(self, request: Callable[[], Any], finish: Callable[[Any], Any], path: str, done: Done) -> None:
        def completed(result: Any) -> None:
            """Thread: kazoo's completions."""
            answer: Any = None
            error: Exception | None = None
            try:
                answer = finish(result.get())
            except NoNodeError:
                error = NodeMissingError(path)
            except NodeExistsError:
                error = NodeThereError(path)
            except (NodeMissingError, NodeThereError) as told:
                error = told
            except (NoAuthError, AuthFailedError):
                error = self.refusal(f"use {path}")
            except Exception as failure:  # noqa: BLE001 - the error is passed on
                error = RequestError(f"{path}: {failure!r}")
            self._on_loop(lambda: done(answer, error))

        try:
            request().rawlink(completed)
        except Exception as failure:  # noqa: BLE001 - the client is closed or closing
            told = RequestError(f"{path}: {failure!r}")
            self._on_loop(lambda: done(None, told))


def _check_results(operations: Sequence[Operation], results: Sequence[Any]) -> None:
    """Raises the error of the operation at which the transaction failed. The other results have no information."""
    for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if isinstance(result, NoNodeError):
            raise NodeMissingError(operation.path, index)
        if isinstance(result, NodeExistsError):
            raise NodeThereError(operation.path)
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            raise result
    if any(isinstance(result, Exception) for result in results):
        raise RequestError(f"a transaction was not executed: {list(results)!r}")
