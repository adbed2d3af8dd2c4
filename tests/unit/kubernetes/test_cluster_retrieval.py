"""How clients find a cluster in Kubernetes."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from flinkpy.common.errors import ConfigurationError, FlinkError, KubernetesError
from flinkpy.kubernetes.cluster_retrieval import RetrievedCluster, retrieve_cluster

FILES = {name: base64.b64encode(name.encode()).decode() for name in ("token", "client.pem", "ca.pem")}
NODE = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}}


class ApiOfTest:
    namespace = "data"

    def __init__(self, service: dict[str, Any] | None, secret: dict[str, Any] | None) -> None:
        self._found = {"services": service, "secrets": secret}

    async def get(self, kind: str, name: str) -> dict[str, Any] | None:
        return self._found[kind]

    async def list(self, kind: str, label_selector: str) -> tuple[list[dict[str, Any]], str]:
        return [NODE], "1"


def service(exposed: str, **fields: Any) -> dict[str, Any]:
    spec = {"type": exposed, "ports": [{"port": 6123, "nodePort": 30123}]}
    return {"metadata": {"name": "demo-rest"}, "spec": spec, **fields}


def retrieved(api: ApiOfTest, **options: str) -> RetrievedCluster:
    return asyncio.run(retrieve_cluster(api, {"kubernetes.cluster-id": "demo", **options}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "address"),
    [
        (service("ClusterIP"), "demo-rest.data:6123"),
        (service("NodePort"), "10.0.0.7:30123"),
        (service("LoadBalancer", status={"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}), "1.2.3.4:6123"),
        (service("LoadBalancer", status={"loadBalancer": {"ingress": [{"hostname": "lb.org"}]}}), "lb.org:6123"),
    ],
)
def test_the_address_is_that_of_the_service(found: dict[str, Any], address: str) -> None:
    assert retrieved(ApiOfTest(found, {"data": FILES})).address == address


@pytest.mark.parametrize(
    ("api", "error", "message"),
    [
        (ApiOfTest(None, None), ConfigurationError, "there is no cluster demo in namespace data"),
        (ApiOfTest(service("LoadBalancer"), {"data": FILES}), KubernetesError, "has no address yet"),
        (ApiOfTest(service("ClusterIP"), {"data": {}}), KubernetesError, "has no ca.pem, client.pem, token"),
    ],
)
def test_everything_that_is_missing_is_named(api: ApiOfTest, error: type[FlinkError], message: str) -> None:
    with pytest.raises(error, match=message):
        retrieved(api)


def test_a_type_of_address_that_no_node_has_is_named() -> None:
    with pytest.raises(KubernetesError, match="no node has an address of type ExternalIP"):
        retrieved(
            ApiOfTest(service("NodePort"), {"data": FILES}),
            **{"kubernetes.rest-service.exposed.node-port-address-type": "ExternalIP"},
        )


def test_credentials_are_written_for_their_owner_only(tmp_path: Path) -> None:
    options = retrieved(ApiOfTest(service("ClusterIP"), {"data": FILES})).write_credentials(tmp_path)
    assert Path(options["security.token-file"]).read_text() == "token"
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
