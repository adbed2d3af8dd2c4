"""KubernetesApi: the few calls of an API server that flinkpy needs, with objects as dicts.

Every failure is a KubernetesError with the server's own message. The library is kubernetes_asyncio, which reads
kubeconfig files and service accounts and renews their tokens.

Source: org.apache.flink.kubernetes.kubeclient.FlinkKubeClient.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any

from flinkpy.common.errors import ConfigurationError, KubernetesError
from flinkpy.configuration import kubernetes_options, read_option
from flinkpy.configuration.options import AnyConfiguration

Manifest = dict[str, Any]

#: The time limit of a call.
CALL_TIMEOUT_S = 15.0
#: The server ends a watch after this time, and the client begins another one: a connection that is dead, though nobody
#: closed it, is noticed at last.
WATCH_TIMEOUT_S = 240
#: How much longer than that the client waits.
_WATCH_SLACK_S = 30.0
_CONFLICT, _NOT_FOUND, _GONE = 409, 404, 410


class KubernetesApi:
    """Thread: the event loop that `connect` was called on."""

    def __init__(self, client: Any, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    @classmethod
    async def connect(cls, configuration: AnyConfiguration) -> KubernetesApi:
        """Returns a client of the configured API server. Does not call it.

        Raises:
            ConfigurationError: kubernetes_asyncio is not installed, or nothing says where the API server is.
        """
        try:
            # The import takes more than a second. A service answers its heartbeats meanwhile.
            client = await asyncio.to_thread(import_module, "kubernetes_asyncio.client")
            config = await asyncio.to_thread(import_module, "kubernetes_asyncio.config")
        except ImportError as error:
            raise ConfigurationError(
                "clusters on Kubernetes need the package kubernetes_asyncio: pip install 'flinkpy[kubernetes]'"
            ) from error
        settings = client.Configuration()
        file = read_option(configuration, kubernetes_options.CONFIG_FILE)
        context = read_option(configuration, kubernetes_options.CONTEXT)
        try:
            if file is None and context is None:
                try:
                    config.load_incluster_config(client_configuration=settings)
                except config.ConfigException:
                    await config.load_kube_config(client_configuration=settings)
            else:
                await config.load_kube_config(config_file=file, context=context, client_configuration=settings)
        except (config.ConfigException, OSError) as error:
            raise ConfigurationError(
                f"cannot tell where the API server of Kubernetes is: {error}. Set `kubernetes.config.file`",
                details={"option": kubernetes_options.CONFIG_FILE.key},
            ) from error
        return cls(client.ApiClient(configuration=settings), read_option(configuration, kubernetes_options.NAMESPACE))

    @property
    def namespace(self) -> str:
        return self._namespace

    async def close(self) -> None:
        await self._client.close()

    # --- objects ----------------------------------------------------------------------------------------------------

    async def create(self, kind: str, manifest: Manifest) -> Manifest:
        """Creates an object and returns it. Raises: KubernetesError, also if it exists."""
        return await self._call("POST", self._path(kind), body=manifest)

    async def get(self, kind: str, name: str) -> Manifest | None:
        """Returns an object; None if it does not exist. Raises: KubernetesError."""
        try:
            return await self._call("GET", self._path(kind, name))
        except KubernetesError as error:
            if is_not_found(error):
                return None
            raise

    async def replace(self, kind: str, manifest: Manifest) -> Manifest:
        """Replaces an object if it still has the manifest's resource version, and returns it.

        Raises:
            KubernetesError: the call failed; `is_conflict` of it: somebody else has changed the object.
        """
        return await self._call("PUT", self._path(kind, manifest["metadata"]["name"]), body=manifest)

    async def delete(self, kind: str, name: str, *, grace_s: int | None = None) -> bool:
        """Asks for the end of an object, which may take its time. Returns False if it does not exist.

        Raises:
            KubernetesError: the call failed.
        """
        options: Manifest = {"propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            await self._call("DELETE", self._path(kind, name), body=options)
        except KubernetesError as error:
            if is_not_found(error):
                return False
            raise
        return True

    async def list(self, kind: str, label_selector: str) -> tuple[list[Manifest], str]:
        """Returns the objects with these labels, and the version from which a watch goes on.

        Raises:
            KubernetesError: the call failed.
        """
        found = await self._call("GET", self._path(kind), query={"labelSelector": label_selector})
        return found.get("items") or [], found["metadata"]["resourceVersion"]

    async def watch(self, kind: str, label_selector: str, resource_version: str) -> AsyncIterator[tuple[str, Manifest]]:
        """Yields each change after a version: ADDED, MODIFIED, DELETED or BOOKMARK, and the object.

        It ends when the server ends it, which is no failure.

        Raises:
            KubernetesError: the connection broke, or (`is_expired`) the version is too old and the objects must be
                listed again.
        """
        query = {
            "labelSelector": label_selector,
            "resourceVersion": resource_version,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_TIMEOUT_S),
        }
        response = await self._send("GET", self._path(kind), query, None, WATCH_TIMEOUT_S + _WATCH_SLACK_S, stream=True)
        try:
            if response.status != 200:
                raise _refusal(response.status, await response.text())
            while line := await response.content.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _refusal(event["object"].get("code", 0), json.dumps(event["object"]))
                yield event["type"], event["object"]
        except _transport_errors() as error:
            raise KubernetesError(f"the watch of {kind} broke: {_text_of(error)}") from error
        finally:
            response.close()

    # --- calls ------------------------------------------------------------------------------------------------------

    def _path(self, kind: str, name: str | None = None) -> str:
        group = _GROUPS[kind]
        place = "" if kind == "nodes" else f"/namespaces/{self._namespace}"
        return f"{group}{place}/{kind}" + ("" if name is None else f"/{name}")

    async def _call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Manifest | None = None
    ) -> Manifest:
        response = await self._send(method, path, query or {}, body, CALL_TIMEOUT_S, stream=False)
        return json.loads(response.data)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Manifest | None,
        timeout_s: float,
        *,
        stream: bool,
    ) -> Any:
        from kubernetes_asyncio.client import ApiException

        try:
            # The token of a service account is read again when it is renewed, so each call asks for it.
            headers = {"Accept": "application/json", "Content-Type": "application/json"}
            query_parameters = list(query.items())
            await self._client.update_params_for_auth(headers, query_parameters, ["BearerToken"])
            return await self._client.rest_client.request(
                method,
                self._client.configuration.host + path,
                query_params=query_parameters,
                headers=headers,
                body=body,
                _preload_content=not stream,
                _request_timeout=timeout_s,
            )
        except ApiException as error:
            raise _refusal(error.status or 0, error.body or error.reason or "") from error
        except _transport_errors() as error:
            raise KubernetesError(
                f"the API server of Kubernetes at {self._client.configuration.host} does not answer: {_text_of(error)}"
            ) from error


#: The path of the API of each kind of object.
_GROUPS = {
    "nodes": "/api/v1",
    "pods": "/api/v1",
    "configmaps": "/api/v1",
    "secrets": "/api/v1",
    "services": "/api/v1",
    "deployments": "/apis/apps/v1",
    "leases": "/apis/coordination.k8s.io/v1",
}


def is_not_found(error: KubernetesError) -> bool:
    return error.details.get("status") == str(_NOT_FOUND)


def is_conflict(error: KubernetesError) -> bool:
    """True if an object that was to be created exists, or one that was to be replaced has another version."""
    return error.details.get("status") == str(_CONFLICT)


def is_expired(error: KubernetesError) -> bool:
    """True if the server does not have the version of a watch any more."""
    return error.details.get("status") == str(_GONE)


def _transport_errors() -> tuple[type[Exception], ...]:
    """Returns the errors of connections. A line that is no JSON is one that was cut off."""
    import aiohttp

    return (OSError, TimeoutError, ValueError, aiohttp.ClientError)


def _refusal(status: int, body: str | bytes) -> KubernetesError:
    """Returns the error of an answer, whose body is an object of kind Status or some text."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {}
    message = (answer.get("message") if isinstance(answer, dict) else None) or text.strip() or "no reason given"
    reason = str(answer.get("reason") or "") if isinstance(answer, dict) else ""
    return KubernetesError(
        f"Kubernetes refuses: {message} (HTTP status {status})", details={"status": str(status), "reason": reason}
    )


def _text_of(error: BaseException) -> str:
    return str(error) or type(error).__name__
