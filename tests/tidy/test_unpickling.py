"""Unpickling runs code, so every place that unpickles is listed here with its process.

Only processes that run a job's user code anyway unpickle its data: its JobMaster, TaskExecutors with its tasks, and its
program. A new place must be added to the table with its reason, and never to a package in WITHOUT.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from syntax import nodes_of
from test_tidy import SOURCE, modules

PROGRAM = "the program that submitted the job"
JOB_MASTER = "the job's JobMaster"
TASK = "a TaskExecutor that runs the job's tasks"
SPARK_WORKER = "a Python worker of Spark that runs the job's functions"

#: module -> how often it unpickles, in which process, what
UNPICKLING = {
    "client/job_results.py": (1, PROGRAM, "the accumulators of its own job"),
    "connector_api/source_coordinator.py": (2, JOB_MASTER, "checkpoints of the job, and what it had read of a batch"),
    "connectors/cluster_dataset.py": (2, TASK, "records that tasks of the program have cached"),
    "connectors/collect_coordinator.py": (1, JOB_MASTER, "requests of the program for results"),
    "connectors/collect_iterator.py": (1, PROGRAM, "answers of its job"),
    "connectors/collect_protocol.py": (1, PROGRAM, "records of its job"),
    "connectors/collection.py": (1, TASK, "the elements that the program gave"),
    "connectors/hybrid_events.py": (1, JOB_MASTER, "splits of the job's sources; TaskExecutors too"),
    "datastream/utils.py": (1, PROGRAM, "records of its job"),
    "jobmaster/accumulators.py": (1, JOB_MASTER, "accumulators of the job's tasks"),
    "jobmaster/operator_coordinators.py": (2, JOB_MASTER, "the job's operator coordinators"),
    "network/codec.py": (2, TASK, "rows that tasks of the same job sent"),
    "records/column_codecs.py": (1, TASK, "values of types that have no other form"),
    "spark/blocks.py": (2, TASK, "what the job's functions in Spark returned"),
    "spark/region_main.py": (1, "the process of a region in Spark", "the job's functions"),
    "spark/region_messages.py": (1, TASK, "what the process of its region sent; that process: what its task sent"),
    "spark/driver/driver_job.py": (2, PROGRAM, "the operators of its own jobs"),
    "spark/columns/queries.py": (1, SPARK_WORKER, "the kernels of a query, and functions of the job"),
    "spark/translation/worker.py": (2, SPARK_WORKER, "the job's functions and their input"),
    "spark/translation/worker_chain.py": (1, SPARK_WORKER, "the job's functions"),
    "sql/types/logical_codecs.py": (1, TASK, "objects of type RAW, which SQL does not look into"),
    "state/pickling.py": (2, TASK, "state of the job"),
    "state/rocksdb/key_codec.py": (2, TASK, "keys of the job's state"),
    "table/models/python_model.py": (1, TASK, "a model whose file the statement of the program names"),
    "taskexecutor/task_deployer.py": (1, TASK, "functions of the job whose task it deploys"),
}
#: Packages of processes that serve all jobs, and the packages that they import.
WITHOUT = (
    *("dispatcher/", "resourcemanager/", "highavailability/", "rpc/", "security/"),
    *("common/", "configuration/", "checkpoint/", "graph/", "metrics/", "cli/"),
)
#: Source text of flinkpy's own making that becomes code.
COMPILING = {
    "records/compiling.py": "converters of rows, made of the types of a stream",
    "streaming/operators/fused_code.py": "one function of several operators",
    "streaming/operators/rolling_functions.py": "an expression over fields",
}

_LIBRARIES = {
    "pickle",
    "_pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "joblib",
    "jsonpickle",
    "torch",
}
_LOADING = {"load", "loads", "Unpickler", "open", "decode"}
_ANYWHERE = {"read_pickle", "unpickle"}


def unpickling_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Returns line and text of every expression that unpickles, also under an import alias."""
    names: dict[str, str] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _LIBRARIES:
            for alias in node.names:
                if alias.name in _LOADING:
                    yield node.lineno, f"from {node.module} import {alias.name}"
                names[alias.asname or alias.name] = alias.name
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute):
            root = node.value.id if isinstance(node.value, ast.Name) else ""
            library = names.get(root, "").partition(".")[0]
            if (
                (library in _LIBRARIES and node.attr in _LOADING)
                or node.attr in _ANYWHERE
                or (node.attr in _LOADING and "npickler" in ast.unparse(node.value))
            ):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield node.value.lineno, "allow_pickle"
        elif isinstance(node, ast.Call) and _is_multiprocessing_pipe(node.func):
            yield node.lineno, "multiprocessing.Pipe"


def _is_multiprocessing_pipe(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "Pipe"
        and ast.unparse(function).endswith("multiprocessing.Pipe")
    )


def test_every_place_that_unpickles_is_listed_with_its_process_and_reason() -> None:
    found = {name: sorted(unpickling_in(tree)) for name, tree, _ in modules()}
    counts = {name: len(places) for name, places in found.items() if places}
    listed = {name: count for name, (count, _, _) in UNPICKLING.items()}
    unlisted = {name: places for name, places in found.items() if counts.get(name, 0) != listed.get(name, 0)}
    assert unlisted == {}


def test_processes_that_serve_all_jobs_unpickle_nothing() -> None:
    assert [name for name in UNPICKLING if name.startswith(WITHOUT)] == []
    assert all((SOURCE / package).is_dir() for package in WITHOUT)


def test_the_search_finds_every_way_to_unpickle() -> None:
    ways = [
        "import pickle\npickle.loads(x)",
        "import pickle as p\ny = p.loads",
        "def f():\n    import cloudpickle\n    return cloudpickle.load(x)",
        "from pickle import loads as parse\nparse(x)",
        "from pickle import Unpickler",
        "import pickle\nclass Own(pickle.Unpickler): pass",
        "import pandas\npandas.read_pickle(x)",
        "import numpy\nnumpy.load(x, allow_pickle=True)",
        "import marshal\nmarshal.loads(x)",
        "import shelve\nshelve.open(x)",
        "import multiprocessing\nmultiprocessing.Pipe()",
    ]
    assert [way for way in ways if not list(unpickling_in(ast.parse(way)))] == []
    assert list(unpickling_in(ast.parse("import json, pickle\njson.loads(x)\npickle.dumps(x)"))) == []


def test_only_code_of_flinkpy_is_compiled() -> None:
    found = {
        name
        for name, tree, _ in modules()
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec")
    }
    assert found == COMPILING.keys()


def test_the_dispatcher_and_the_resource_manager_do_not_even_load_cloudpickle(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "import flinkpy.dispatcher.entrypoint, flinkpy.resourcemanager.entrypoint, flinkpy.cli.services\n"
        "print([name for name in ('cloudpickle', 'dill', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
