from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MetricsRequest(_message.Message):
    __slots__ = ("job_id", "vertex_id", "names", "kinds", "resource_id", "name_ends")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_ENDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    vertex_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    resource_id: str
    name_ends: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., vertex_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[str]] = ..., resource_id: _Optional[str] = ..., name_ends: _Optional[_Iterable[str]] = ...) -> None: ...

class MetricsDump(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[MetricGroupDump]
    def __init__(self, groups: _Optional[_Iterable[_Union[MetricGroupDump, _Mapping]]] = ...) -> None: ...

class MetricGroupDump(_message.Message):
    __slots__ = ("job_id", "vertex_id", "subtask_index", "attempt_number", "operator_id", "operator_name", "resource_id", "metrics")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt_number: int
    operator_id: str
    operator_name: str
    resource_id: str
    metrics: _containers.RepeatedCompositeFieldContainer[MetricDump]
    def __init__(self, job_id: _Optional[str] = ..., vertex_id: _Optional[str] = ..., subtask_index: _Optional[int] = ..., attempt_number: _Optional[int] = ..., operator_id: _Optional[str] = ..., operator_name: _Optional[str] = ..., resource_id: _Optional[str] = ..., metrics: _Optional[_Iterable[_Union[MetricDump, _Mapping]]] = ...) -> None: ...

class MetricDump(_message.Message):
    __slots__ = ("name", "kind", "number", "real", "text", "statistics")
    class StatisticsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    number: int
    real: float
    text: str
    statistics: _containers.ScalarMap[str, float]
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., number: _Optional[int] = ..., real: _Optional[float] = ..., text: _Optional[str] = ..., statistics: _Optional[_Mapping[str, float]] = ...) -> None: ...
