"""The parallelism of vertices can be overridden by their ids when a job is submitted."""

from __future__ import annotations

import pytest

from flinkpy._proto import job_pb2
from flinkpy.common.errors import JobSubmissionError
from flinkpy.dispatcher.parallelism_overrides import apply_parallelism_overrides

KEY = "pipeline.jobvertex-parallelism-overrides"


def graph(**source):
    data = job_pb2.IntermediateDataSet(id="data", partitioner_name="FORWARD")
    return job_pb2.JobGraph(
        vertices=[
            job_pb2.JobVertex(
                id="a", name="A", parallelism=2, max_parallelism=source.pop("most", -1), results=[data], **source
            ),
            job_pb2.JobVertex(
                id="b", name="B", parallelism=2, max_parallelism=8, inputs=[job_pb2.JobEdge(source_data_set_id="data")]
            ),
        ]
    )


def test_the_job_overrides_the_cluster_and_the_number_of_key_groups_stays() -> None:
    job = graph()
    job.configuration.entries[KEY] = "a:3,b:3,other:7"
    apply_parallelism_overrides(job, {KEY: "a:5,b:5"})
    assert [(one.parallelism, one.max_parallelism) for one in job.vertices] == [(3, 128), (3, 8)]


@pytest.mark.parametrize(
    ("overrides", "words", "source"),
    [
        ("a:9,b:9", "the parallelism 9 of vertex 'B' (b) exceeds its maximum parallelism 8", {}),
        ("a:3", "the edge between them is a forward edge; override both", {}),
        ("a:0", "must be at least 1, not '0'", {}),
        ("a:2", "exceeds its maximum parallelism 1", {"is_non_parallel": True}),
    ],
)
def test_an_impossible_override_names_the_vertex(overrides, words, source) -> None:
    with pytest.raises(JobSubmissionError) as raised:
        apply_parallelism_overrides(graph(**source), {KEY: overrides})
    assert words in str(raised.value)
