"""Deviations of the public API from PyFlink, with their reasons and checks, for `test_pyflink_signatures.py`."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from flinkpy.common import AssignerWithPeriodicWatermarksWrapper, Configuration, ExecutionConfig, RowKind, Types
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.io import InputFormat
from flinkpy.common.serialization import (
    BulkWriterFactory,
    DeserializationSchema,
    RowDataBulkWriterFactory,
    SerializationSchema,
)
from flinkpy.common.utils import JavaObjectWrapper
from flinkpy.datastream import (
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    MemorySize,
    OutputTag,
    SinkFunction,
    SlotSharingGroup,
    SourceFunction,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.connectors.kinesis import KinesisDeserializationSchema
from flinkpy.datastream.connectors.pulsar import PulsarSinkBuilder
from flinkpy.datastream.functions import JavaFunctionWrapper, ReduceFunctionWrapper
from flinkpy.datastream.utils import (
    create_hadoop_configuration,
    create_java_properties,
    pickled_bytes_to_python_obj,
)


class Instead(Enum):
    """The behaviour where PyFlink would call the JVM, or where a name is declared differently."""

    RAISES = "there is no JVM: the call raises UnsupportedOperationError, which says what to use"
    WARNS = "accepted with a warning: the call can have no effect without a JVM"
    HAS_NO_EFFECT = "accepted, kept and given back: it describes the JVM's serializers"
    SAME = "declared in another way, but does the same"


@dataclass(frozen=True)
class Deviation:
    """A deviation of public members.

    Attributes:
        members: their names as `module:member`, without the leading `pyflink.`.
        instead: the behaviour of flinkpy.
        check: fails if `instead` is not true.
    """

    members: tuple[str, ...]
    reason: str
    instead: Instead
    check: Callable[[], None]


def raises(*calls: Callable[[], Any]) -> Callable[[], None]:
    def check() -> None:
        for call in calls:
            with pytest.raises(UnsupportedOperationError, match=r"flinkpy has no JVM|Java"):
                call()

    return check


def warns(*calls: Callable[[], Any]) -> Callable[[], None]:
    def check() -> None:
        for call in calls:
            with pytest.warns(UserWarning, match="flinkpy has no JVM"):
                call()

    return check


def _environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


def _check_jvm_settings_are_kept() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = ExecutionConfig(Configuration())
        assert config.enable_force_kryo().is_force_kryo_enabled()
        assert not config.disable_force_kryo().is_force_kryo_enabled()
        assert config.enable_force_avro().is_force_avro_enabled()
        assert not config.disable_force_avro().is_force_avro_enabled()
        assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
        assert config.enable_closure_cleaner().is_closure_cleaner_enabled()
        assert config.enable_object_reuse().is_object_reuse_enabled()
        assert not config.disable_object_reuse().is_object_reuse_enabled()
        assert config.get_default_kryo_serializer_classes() == {}
        assert config.get_registered_kryo_types() == config.get_registered_pojo_types() == []


def _check_reduce_wrapper_reduces() -> None:
    assert ReduceFunctionWrapper(lambda a, b: a + b).reduce(1, 2) == 3


def _check_output_tag_survives_pickling() -> None:
    tag = pickle.loads(pickle.dumps(OutputTag("late", Types.INT())))
    assert (tag.tag_id, tag.type_info) == ("late", Types.INT())


_TYPEINFO = "common.typeinfo:"
_TYPE_CLASSES = (
    "TypeInformation",
    "BasicTypeInfo",
    "PrimitiveArrayTypeInfo",
    "BasicArrayTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "RowTypeInfo",
    "TupleTypeInfo",
    "DateTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "LocalTimeTypeInfo",
    "ExternalTypeInfo",
)

DEVIATIONS = (
    Deviation(
        tuple(f"{_TYPEINFO}{name}.get_java_type_info" for name in _TYPE_CLASSES),
        "gives a Java object",
        Instead.RAISES,
        raises(
            Types.STRING().get_java_type_info,
            Types.ROW([Types.INT()]).get_java_type_info,
            Types.LIST(Types.INT()).get_java_type_info,
        ),
    ),
    Deviation(
        (
            "common.types:RowKind.to_j_row_kind",
            "datastream.output_tag:OutputTag.get_java_output_tag",
            "datastream.slot_sharing_group:MemorySize.get_java_memory_size",
            "datastream.slot_sharing_group:SlotSharingGroup.get_java_slot_sharing_group",
            "datastream.functions:JavaFunctionWrapper.get_java_function",
            "common.utils:JavaObjectWrapper.get_java_object",
        ),
        "gives a Java object",
        Instead.RAISES,
        raises(
            RowKind.INSERT.to_j_row_kind,
            OutputTag("a").get_java_output_tag,
            MemorySize.of_mebi_bytes(1).get_java_memory_size,
            SlotSharingGroup.builder("a").build().get_java_slot_sharing_group,
        ),
    ),
    Deviation(
        (
            "common.utils:JavaObjectWrapper",
            "common.io:InputFormat",
            "common.serialization:BulkWriterFactory",
            "common.serialization:RowDataBulkWriterFactory",
            "common.watermark_strategy:AssignerWithPeriodicWatermarksWrapper",
            "datastream.functions:JavaFunctionWrapper",
            "datastream.functions:SourceFunction.__init__",
            "datastream.functions:SinkFunction.__init__",
            "datastream.state_backend:CustomStateBackend",
            "datastream.checkpoint_storage:CustomCheckpointStorage",
        ),
        "wraps a Java object or names a Java class",
        Instead.RAISES,
        raises(
            lambda: JavaObjectWrapper(object()),
            lambda: InputFormat(object()),
            lambda: BulkWriterFactory(object()),
            lambda: RowDataBulkWriterFactory(object(), None),
            lambda: SerializationSchema(object()),
            lambda: DeserializationSchema(object()),
            lambda: AssignerWithPeriodicWatermarksWrapper(object()),
            lambda: JavaFunctionWrapper("org.example.F"),
            lambda: SourceFunction("org.example.S"),
            lambda: SinkFunction("org.example.S"),
            lambda: CustomStateBackend(object()),
            lambda: CustomCheckpointStorage(object()),
        ),
    ),
    Deviation(
        (
            "datastream.connectors.kinesis:KinesisDeserializationSchema",
            "datastream.connectors.pulsar:PulsarSinkBuilder.set_topic_router",
        ),
        "wraps a Java object or names a Java class; derive a class, or give a callable",
        Instead.RAISES,
        raises(
            lambda: KinesisDeserializationSchema(object()),
            lambda: PulsarSinkBuilder().set_topic_router("org.example.Router"),
        ),
    ),
    Deviation(
        (
            "datastream.utils:create_hadoop_configuration",
            "datastream.utils:create_java_properties",
            "datastream.utils:pickled_bytes_to_python_obj",
        ),
        "give or take what only the JVM has",
        Instead.RAISES,
        raises(
            lambda: create_hadoop_configuration(Configuration()),
            lambda: create_java_properties(Configuration()),
            lambda: pickled_bytes_to_python_obj(b"", Types.INT()),
        ),
    ),
    Deviation(
        ("datastream.state_backend:EmbeddedRocksDBStateBackend.set_options",),
        "takes the name of a Java class",
        Instead.RAISES,
        raises(lambda: EmbeddedRocksDBStateBackend().set_options("org.example.Factory")),
    ),
    Deviation(
        ("datastream.stream_execution_environment:StreamExecutionEnvironment.create_input",),
        "takes a Java InputFormat",
        Instead.RAISES,
        raises(lambda: _environment().create_input(object())),
    ),
    Deviation(
        (
            "datastream.stream_execution_environment:StreamExecutionEnvironment.add_jars",
            "datastream.stream_execution_environment:StreamExecutionEnvironment.add_classpaths",
        ),
        "bring Java classes",
        Instead.WARNS,
        warns(lambda: _environment().add_jars("file:///a.jar"), lambda: _environment().add_classpaths("file:///a/")),
    ),
    Deviation(
        tuple(
            f"common.execution_config:ExecutionConfig.{name}"
            for name in (
                "enable_force_kryo",
                "disable_force_kryo",
                "enable_force_avro",
                "disable_force_avro",
                "enable_closure_cleaner",
                "disable_closure_cleaner",
                "enable_object_reuse",
                "disable_object_reuse",
                "get_default_kryo_serializer_classes",
                "get_registered_kryo_types",
                "get_registered_pojo_types",
            )
        ),
        "describes how the JVM serializes objects (of PyFlink 2.3.0 these fail: the Java methods are gone)",
        Instead.HAS_NO_EFFECT,
        _check_jvm_settings_are_kept,
    ),
    Deviation(
        ("datastream.functions:ReduceFunctionWrapper.reduce",),
        "the method is the wrapped callable itself, a property, so that loops call it without a detour",
        Instead.SAME,
        _check_reduce_wrapper_reduces,
    ),
    Deviation(
        ("datastream.output_tag:OutputTag.__getstate__", "datastream.output_tag:OutputTag.__setstate__"),
        "PyFlink drops the Java object when a tag is pickled; here there is none to drop",
        Instead.SAME,
        _check_output_tag_survives_pickling,
    ),
)

#: Members that are not declared as PyFlink declares them. Those above that are not here have PyFlink's signature.
DECLARED_OTHERWISE = frozenset(
    {
        "datastream.functions:ReduceFunctionWrapper.reduce",
        "datastream.output_tag:OutputTag.__getstate__",
        "datastream.output_tag:OutputTag.__setstate__",
        # Classes to derive from, where PyFlink's only wrap a Java object.
        "datastream.functions:SourceFunction.__init__",
        "datastream.functions:SinkFunction.__init__",
        "datastream.connectors.base:Source.__init__",
        "datastream.connectors.base:Sink.__init__",
        # Takes aggregates of columns as keywords in place of a function.
        "datastream.data_stream:WindowedStream.aggregate",
        "datastream.data_stream:AllWindowedStream.aggregate",
        # The row forbids other attributes than its fields by `__slots__`.
        "common.types:Row.__setattr__",
    }
)

#: Modules that are not complete yet, with the reason. Their existing members are compared too.
IN_PROGRESS: dict[str, str] = {}
