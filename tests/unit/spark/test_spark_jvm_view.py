"""Names of a JVM are looked up once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j import protocol as proto
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from py4j.protocol import Py4JError

from flinkpy.spark.jvm_view import JvmView


class FakeGatewayClient:
    """A JVM with the package `org`, the class `org.Functions` and its function `col`."""

    converters: tuple[Any, ...] = ()
    gateway_property = SimpleNamespace(pool=None)

    def __init__(self) -> None:
        self.questions: list[str] = []

    def send_command(self, command: str) -> str:
        _, kind, *names = command.split("\n")
        name = names[0] if kind == proto.REFL_GET_UNKNOWN_SUB_COMMAND_NAME.strip() else names[1]
        self.questions.append(name)
        answers = {
            "org": proto.SUCCESS_PACKAGE,
            "org.Functions": proto.SUCCESS_CLASS + "org.Functions",
            "col": proto.SUCCESS + proto.METHOD_TYPE,
        }
        return answers.get(name, proto.ERROR)


@pytest.fixture
def client() -> FakeGatewayClient:
    return FakeGatewayClient()


def test_a_class_and_its_functions_are_looked_up_once(client: FakeGatewayClient) -> None:
    view = JvmView(JVMView(client, "view", id="rj"))
    members = {getattr(view, "org.Functions").col for _ in range(3)}
    assert len(members) == 1
    assert client.questions == ["org.Functions", "col"]


def test_packages_and_classes_are_views_too(client: FakeGatewayClient) -> None:
    jvm = JVMView(client, "view", id="rj")
    assert isinstance(jvm.org, JavaPackage)
    assert isinstance(JvmView(jvm).org.Functions, JvmView)
    assert isinstance(getattr(jvm, "org.Functions"), JavaClass)


def test_a_name_that_does_not_exist_is_an_error_each_time(client: FakeGatewayClient) -> None:
    view = JvmView(JVMView(client, "view", id="rj"))
    for _ in range(2):
        with pytest.raises(Py4JError, match="does not exist"):
            _ = view.unknown
    assert client.questions == ["unknown", "unknown"]
