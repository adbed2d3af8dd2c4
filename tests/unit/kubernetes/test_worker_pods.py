from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_pods import pod

from flinkpy.common.ids import ResourceID
from flinkpy.kubernetes.worker_pods import WorkerDelayed, WorkerEnded, WorkerPods

ONE, TWO = ResourceID("one"), ResourceID("two")
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def known(*workers: ResourceID) -> WorkerPods:
    pods = WorkerPods()
    for worker in workers:
        pods.requested(worker)
        pods.created(worker)
    return pods


def test_a_pod_that_waits_or_runs_is_no_news() -> None:
    pods = known(ONE)
    assert pods.changed("ADDED", pod("one")) == []
    assert pods.changed("MODIFIED", pod("one", state={"waiting": {"reason": "ContainerCreating"}})) == []
    assert pods.changed("MODIFIED", pod("one", phase="Running", state=RUNNING)) == []
    assert pods.knows(ONE)


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (
            pod("one", state={"waiting": {"reason": "ErrImagePull", "message": "flinkpy:9: not found"}}),
            "its container cannot start: ErrImagePull: flinkpy:9: not found",
        ),
        (pod("one", phase="Running", state={"terminated": {"exitCode": 3}}), "its container ended: exit code 3"),
        (
            pod("one", phase="Running", state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
            "its container ended: exit code 137 (OOMKilled)",
        ),
        (
            pod("one", phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
            "its pod ended with phase Failed (Evicted: The node was low on resource: memory.)",
        ),
    ],
)
def test_a_worker_that_ended_or_cannot_start_is_told_once_with_the_reason_of_the_cluster(
    shown: dict[str, Any], reason: str
) -> None:
    pods = known(ONE)
    assert pods.changed("MODIFIED", shown) == [WorkerEnded(ONE, reason, is_left=True)]
    assert pods.changed("MODIFIED", shown) == []
    assert pods.changed("DELETED", shown) == []


def test_a_deleted_pod_has_ended_and_nothing_is_left_of_it() -> None:
    pods = known(ONE)
    assert pods.changed("DELETED", pod("one", phase="Running", state=RUNNING)) == [
        WorkerEnded(ONE, "its pod was deleted", is_left=False)
    ]


def test_a_pod_that_no_node_takes_is_reported_once_and_waits() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes: insufficient cpu",
    }
    pods = known(ONE)
    waiting = pod("one", conditions=[condition])
    expected = WorkerDelayed(ONE, "no node takes its pod: Unschedulable: 0/3 nodes: insufficient cpu")
    assert pods.changed("ADDED", waiting) == [expected]
    assert pods.changed("MODIFIED", waiting) == []
    assert pods.knows(ONE)


def test_pods_of_an_earlier_resource_manager_are_taken_over_and_dead_ones_reported() -> None:
    pods = WorkerPods()
    dead = pod("two", phase="Failed", state={"terminated": {"exitCode": 1}})
    stranger = {"metadata": {"name": "other", "labels": {}}, "status": {}}
    living, news = pods.recovered([pod("one", phase="Running", state=RUNNING), dead, stranger])
    assert living == [ONE]
    assert news == [WorkerEnded(TWO, "its container ended: exit code 1", is_left=True)]


def test_a_pod_that_is_missing_in_a_list_has_ended() -> None:
    pods = known(ONE, TWO)
    assert pods.listed([pod("two")], pods.created_ids) == [WorkerEnded(ONE, "its pod was deleted", is_left=False)]
    assert not pods.knows(ONE)
    assert pods.knows(TWO)


def test_a_pod_whose_creation_overlaps_a_list_has_not_ended() -> None:
    pods = known(ONE)
    asked_when = pods.created_ids
    pods.requested(TWO)
    pods.created(TWO)
    assert pods.listed([pod("one")], asked_when) == []
    assert pods.knows(TWO)


def test_the_end_of_a_released_worker_is_no_news() -> None:
    pods = known(ONE)
    pods.forget(ONE)
    assert pods.changed("DELETED", pod("one")) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ADDED", "MODIFIED", "DELETED", "LIST"]),
            st.sampled_from(["one", "two"]),
            st.sampled_from(
                [{"waiting": {"reason": "ErrImagePull"}}, {"running": {}}, {"terminated": {"exitCode": 1}}, None]
            ),
        ),
        max_size=12,
    )
)
def test_no_worker_ends_twice_whatever_is_repeated_or_lost(events: list[tuple[str, str, Any]]) -> None:
    pods = known(ONE, TWO)
    ended = []
    for event, worker, state in events:
        shown = pod(worker, state=state)
        news = pods.listed([shown], pods.created_ids) if event == "LIST" else pods.changed(event, shown)
        ended += [each.resource_id for each in news if isinstance(each, WorkerEnded)]
    assert len(ended) == len(set(ended))
    assert pods.resource_ids == {ONE, TWO} - set(ended)
