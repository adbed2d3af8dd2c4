"""Bodies of operations that JobManagers and TaskManagers share, and of those of the JobManager.

Source: org.apache.flink.runtime.rest.messages.{ConfigurationInfoEntry,EnvironmentInfo,LogListInfo,ThreadDumpInfo,
ProfilingInfo}.
"""

from __future__ import annotations

import msgspec


class ConfigurationInfoEntry(msgspec.Struct, kw_only=True):
    """An option. The values of passwords and other secrets are hidden."""

    key: str
    value: str


class JVMInfo(msgspec.Struct, kw_only=True):
    """The interpreter of the process."""

    version: str
    arch: str
    options: list[str]


class EnvironmentInfo(msgspec.Struct, kw_only=True):
    """The interpreter and its search path."""

    jvm: JVMInfo
    classpath: list[str]


class LogInfo(msgspec.Struct, kw_only=True):
    name: str
    size: int
    mtime: int


class LogListInfo(msgspec.Struct, kw_only=True):
    logs: list[LogInfo]


class ThreadInfo(msgspec.Struct, kw_only=True, rename="camel"):
    thread_name: str
    stringified_thread_info: str


class ThreadDumpInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """The stacks of all Python threads of a process."""

    thread_infos: list[ThreadInfo]


class ProfilingInfo(msgspec.Struct, kw_only=True, rename="camel"):
    status: str
    mode: str
    trigger_time: int
    finished_time: int
    duration: int
    message: str
    output_file: str


class ProfilingInfoList(msgspec.Struct, kw_only=True, rename="camel"):
    """The results of the JVM's profiler, of which there are none."""

    profiling_list: list[ProfilingInfo]


class ProfilingRequestBody(msgspec.Struct, kw_only=True):
    mode: str = "ITIMER"
    duration: int = 10
