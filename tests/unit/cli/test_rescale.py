"""`flinkpy rescale` changes the bounds that are named, and keeps the others."""

from __future__ import annotations

import pytest

from flinkpy._proto import job_pb2
from flinkpy.cli.rescale import wanted_bounds
from flinkpy.common.errors import UserError

VERTICES = [
    job_pb2.VertexDetails(
        id="a", name="Source: numbers", parallelism=1, parallelism_lower_bound=1, parallelism_upper_bound=4
    ),
    job_pb2.VertexDetails(id="b", name="Map -> Sink", parallelism=2),
    job_pb2.VertexDetails(id="c", name="Global", parallelism=1, is_non_parallel=True),
]


def bounds(*wanted):
    return {one.vertex_id: (one.lower_bound, one.upper_bound) for one in wanted_bounds(VERTICES, wanted)}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["3"], {"a": (1, 3), "b": (1, 3), "c": (1, 1)}),
        (["2-3"], {"a": (2, 3), "b": (2, 3), "c": (1, 1)}),
        (["a=5"], {"a": (1, 5), "b": (2, 2), "c": (1, 1)}),
        (["3", "Map -> Sink=2-6"], {"a": (1, 3), "b": (2, 6), "c": (1, 1)}),
        (["numbers=2"], {"a": (1, 2), "b": (2, 2), "c": (1, 1)}),
    ],
)
def test_an_argument_is_for_all_vertices_or_for_one(wanted, expected) -> None:
    assert bounds(*wanted) == expected


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("many", "`many` is not a parallelism"),
        ("other=2", "no vertex of the job match `other`; its vertices are Source: numbers (a)"),
        ("S=2", "several vertices of the job match `S`"),
    ],
)
def test_a_wrong_argument_says_what_is_possible(wanted, words) -> None:
    with pytest.raises(UserError) as raised:
        bounds(wanted)
    assert words in str(raised.value)
