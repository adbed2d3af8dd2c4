"""Shows the plans that Spark makes for regions, without running them. Needs Java."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.configuration.spark_options import MASTER
from flinkpy.graph.spark_region import SparkRegion
from flinkpy.spark.driver.attached_spark import AttachedSessions
from flinkpy.spark.stream_frame import StreamFrame, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A plan is made without executors, so one thread is enough.
_MASTER = "local[1]"
#: The lines of a formatted plan that say what Spark pushes into the readers of files and tables.
_PUSHED = re.compile(r"^\s*(PushedFilters|PartitionFilters|DataFilters|ReadSchema): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """Spark's plan of one output of a region, or of one job that writes sinks.

    Attributes:
        name: the operators whose result it is.
        text: the plan in the form that was asked for.
        pushed: what Spark pushes into the readers of files, as its plan says it.
    """

    name: str
    text: str
    pushed: tuple[str, ...]


class _NothingIsKept:
    """Implements FrameStore without computing a frame."""

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        return frame

    def check(self) -> None:
        return

    def close(self) -> None:
        return


def explained_regions(regions: Iterable[SparkRegion], options: Mapping[str, str], mode: str) -> list[SparkPlan]:
    """Returns Spark's plans of regions. Inputs of a region are empty in them. Blocks while Spark starts.

    Args:
        options: the options of the job.
        mode: that of `DataFrame.explain`.

    Raises:
        SparkUnavailableError, SparkError: there is no Spark on this host.
    """
    sessions = AttachedSessions()
    try:
        session = sessions.attach({**options, MASTER.key: _MASTER}).new_session()
        return [plan for region in regions for plan in _plans(region, session, mode)]
    finally:
        sessions.close()


def _plans(region: SparkRegion, session: SparkSession, mode: str) -> Iterable[SparkPlan]:
    from flinkpy.spark.translation.translator import translate

    inputs = [frame_of(session, [], one.type_info) for one in region.inputs]
    translated = translate(region, session, inputs, store=_NothingIsKept())
    for output, stream in zip(region.outputs, translated.outputs, strict=True):
        yield _plan(region.node(output.node).name, stream, mode)
    for sink in translated.sinks:
        yield _plan(sink.name, sink.frame, mode)


def _plan(name: str, frame: DataFrame | StreamFrame, mode: str) -> SparkPlan:
    explained: Any = frame.frame if isinstance(frame, StreamFrame) else frame
    explain = explained.sparkSession._jvm.PythonSQLUtils.explainString
    execution = explained._jdf.queryExecution()
    formatted = explain(execution, "formatted")
    text = formatted if mode == "formatted" else explain(execution, mode)
    pushed = tuple(f"{key}: {value}" for key, value in dict.fromkeys(_PUSHED.findall(formatted)))
    return SparkPlan(name, text, pushed)
