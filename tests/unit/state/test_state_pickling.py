from __future__ import annotations

import subprocess
import sys
import textwrap

import cloudpickle

from flinkpy.state.pickling import dumps, loads


def class_by_value(version: int) -> type:
    """Returns a class without a module, as the function of a job brings it."""
    lines = ["class Event:", " def __init__(self, n):", "  self.n = n", " def version(self):", f"  return {version}"]
    source = "\n".join(lines)
    script = f"""
        import sys, cloudpickle
        namespace = {{"__name__": "__main__"}}
        exec({source!r}, namespace)
        sys.stdout.buffer.write(cloudpickle.dumps(namespace["Event"], 5))
    """
    data = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True).stdout
    return cloudpickle.loads(data)


def test_restored_objects_of_a_class_pickled_by_value_are_instances_of_that_class():
    kind = class_by_value(1)

    (restored,) = loads(dumps([kind(5)]))

    assert (type(restored), restored.n) == (kind, 5)


def test_objects_of_an_older_program_become_instances_of_the_current_class():
    data = dumps([class_by_value(1)(5)])
    now = class_by_value(2)

    (restored,) = loads(data)

    assert (type(restored), restored.n, restored.version()) == (now, 5, 2)


def test_a_class_missing_in_the_job_is_loaded_from_the_state(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(dumps({"k": class_by_value(3)(7)}))
    script = """
        import sys
        from flinkpy.state.pickling import loads
        event = loads(open(sys.argv[1], "rb").read())["k"]
        print(event.n, event.version())
    """

    output = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(path)], check=True, capture_output=True, text=True
    ).stdout

    assert output.split() == ["7", "3"]
