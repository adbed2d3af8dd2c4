from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CodeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODE_KIND_UNSPECIFIED: _ClassVar[CodeKind]
    CODE_USER: _ClassVar[CodeKind]
    CODE_LIBRARY: _ClassVar[CodeKind]
    CODE_RUNTIME: _ClassVar[CodeKind]
CODE_KIND_UNSPECIFIED: CodeKind
CODE_USER: CodeKind
CODE_LIBRARY: CodeKind
CODE_RUNTIME: CodeKind

class ThreadSamplesRequest(_message.Message):
    __slots__ = ("job_id", "vertex_id", "subtask_index", "num_samples", "delay_ms", "max_depth")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    NUM_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    vertex_id: str
    subtask_index: int
    num_samples: int
    delay_ms: int
    max_depth: int
    def __init__(self, job_id: _Optional[str] = ..., vertex_id: _Optional[str] = ..., subtask_index: _Optional[int] = ..., num_samples: _Optional[int] = ..., delay_ms: _Optional[int] = ..., max_depth: _Optional[int] = ...) -> None: ...

class SampledFrame(_message.Message):
    __slots__ = ("name", "line", "kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    line: int
    kind: CodeKind
    def __init__(self, name: _Optional[str] = ..., line: _Optional[int] = ..., kind: _Optional[_Union[CodeKind, str]] = ...) -> None: ...

class SampledStack(_message.Message):
    __slots__ = ("vertex_id", "frames", "on_cpu", "off_cpu")
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    ON_CPU_FIELD_NUMBER: _ClassVar[int]
    OFF_CPU_FIELD_NUMBER: _ClassVar[int]
    vertex_id: str
    frames: _containers.RepeatedScalarFieldContainer[int]
    on_cpu: int
    off_cpu: int
    def __init__(self, vertex_id: _Optional[str] = ..., frames: _Optional[_Iterable[int]] = ..., on_cpu: _Optional[int] = ..., off_cpu: _Optional[int] = ...) -> None: ...

class ThreadSamples(_message.Message):
    __slots__ = ("resource_id", "start_timestamp_ms", "end_timestamp_ms", "num_subtasks", "frames", "stacks")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    END_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    NUM_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    start_timestamp_ms: int
    end_timestamp_ms: int
    num_subtasks: int
    frames: _containers.RepeatedCompositeFieldContainer[SampledFrame]
    stacks: _containers.RepeatedCompositeFieldContainer[SampledStack]
    def __init__(self, resource_id: _Optional[str] = ..., start_timestamp_ms: _Optional[int] = ..., end_timestamp_ms: _Optional[int] = ..., num_subtasks: _Optional[int] = ..., frames: _Optional[_Iterable[_Union[SampledFrame, _Mapping]]] = ..., stacks: _Optional[_Iterable[_Union[SampledStack, _Mapping]]] = ...) -> None: ...

class JobThreadSamples(_message.Message):
    __slots__ = ("task_executors", "unreachable")
    TASK_EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    task_executors: _containers.RepeatedCompositeFieldContainer[ThreadSamples]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_executors: _Optional[_Iterable[_Union[ThreadSamples, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...
