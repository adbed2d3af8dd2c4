"""Runs the example of docs/formats.md."""

from __future__ import annotations

import re
from pathlib import Path

from flinkpy.datastream import StreamExecutionEnvironment

DOCUMENT = Path(__file__).parents[3] / "docs" / "formats.md"


def test_the_documented_example_has_a_side_output_for_bad_records(tmp_path):
    [code] = re.findall(r"<!-- example: bad_records -->\n```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names = {}
    exec(compile(code, "example", "exec"), names)
    (tmp_path / "in.json").write_text('{"user": "a", "at": 1}\nnonsense\n')
    env = StreamExecutionEnvironment.get_execution_environment()
    clicks, rejects = names["clicks_and_rejects"](env, str(tmp_path))
    assert clicks.get_type().get_field_names() == ["user", "at"]
    clicks.print()
    rejects.print()
    edges = env.generate_job_graph("example").vertices
    assert len(edges) >= 1
