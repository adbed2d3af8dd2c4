"""Finds a cluster in Kubernetes: the address of its Dispatcher, and what a client needs to call it.

Source: org.apache.flink.kubernetes.KubernetesClusterDescriptor.retrieve,
org.apache.flink.kubernetes.kubeclient.services.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path

from flinkpy.common.errors import ConfigurationError, KubernetesError
from flinkpy.configuration import kubernetes_options as options
from flinkpy.configuration import read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.kubernetes.api_client import KubernetesApi
from flinkpy.kubernetes.cluster_credentials import AUTHORITY_FILE, CLIENT_FILE, TOKEN_FILE
from flinkpy.kubernetes.names import check_cluster_id, client_security_name, rest_service_name
from flinkpy.kubernetes.pod_parameters import Manifest

_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class RetrievedCluster:
    """A cluster that exists. `files` are the client's credentials by their names."""

    address: str
    files: dict[str, bytes] = field(repr=False)

    def write_credentials(self, directory: Path) -> dict[str, str]:
        """Writes the files, which others cannot read, and returns the options that name them."""
        for name, content in self.files.items():
            path = directory / name
            path.touch(_FILE_MODE)
            path.write_bytes(content)
        return {
            "security.token-file": str(directory / TOKEN_FILE),
            "security.ssl.internal.enabled": "true",
            "security.ssl.internal.keystore": str(directory / CLIENT_FILE),
            "security.ssl.internal.truststore": str(directory / AUTHORITY_FILE),
        }


async def retrieve_cluster(api: KubernetesApi, configuration: AnyConfiguration) -> RetrievedCluster:
    """Returns the cluster of `kubernetes.cluster-id`.

    Raises:
        ConfigurationError: there is no such cluster, or the option is missing.
        KubernetesError: a call failed, or the cluster has no address yet.
    """
    cluster_id = check_cluster_id(read_option(configuration, options.CLUSTER_ID))
    service = await api.get("services", rest_service_name(cluster_id))
    secret = await api.get("secrets", client_security_name(cluster_id))
    if service is None or secret is None:
        raise ConfigurationError(
            f"there is no cluster {cluster_id} in namespace {api.namespace} of Kubernetes: start it with `flinkpy "
            f"kubernetes-session start -D {options.CLUSTER_ID.key}={cluster_id}`",
            details={"option": options.CLUSTER_ID.key},
        )
    files = {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
    if missing := sorted({TOKEN_FILE, CLIENT_FILE, AUTHORITY_FILE} - files.keys()):
        raise KubernetesError(f"the secret {client_security_name(cluster_id)} has no {', '.join(missing)}")
    return RetrievedCluster(await _address(api, configuration, service), files)


async def _address(api: KubernetesApi, configuration: AnyConfiguration, service: Manifest) -> str:
    name, spec = service["metadata"]["name"], service["spec"]
    (port,) = spec["ports"]
    match spec["type"]:
        case "NodePort":
            wanted = read_option(configuration, options.REST_SERVICE_EXPOSED_NODE_PORT_ADDRESS_TYPE)
            return f"{await _node_address(api, wanted)}:{port['nodePort']}"
        case "LoadBalancer":
            given = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
            if not given:
                raise KubernetesError(f"the load balancer of service {name} has no address yet")
            return f"{given[0].get('ip') or given[0]['hostname']}:{port['port']}"
        case _:
            return f"{name}.{api.namespace}:{port['port']}"


async def _node_address(api: KubernetesApi, wanted: str) -> str:
    nodes, _ = await api.list("nodes", "")
    for node in nodes:
        for address in (node.get("status") or {}).get("addresses") or []:
            if address["type"] == wanted:
                return str(address["address"])
    raise KubernetesError(
        f"no node has an address of type {wanted}: set "
        f"`{options.REST_SERVICE_EXPOSED_NODE_PORT_ADDRESS_TYPE.key}` to another type"
    )
