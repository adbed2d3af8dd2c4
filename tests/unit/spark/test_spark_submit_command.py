"""The command, the variables and the files with which `flinkpy spark-submit` calls Spark."""

from __future__ import annotations

import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from flinkpy.common.errors import UserError
from flinkpy.spark.driver.archive import REQUIRED, make_archive
from flinkpy.spark.driver.submission import (
    Program,
    SparkOptions,
    command,
    environment_of,
    is_cluster_mode,
    read_program,
    spark_submit_path,
    write_files,
)

MASTER = "execution.batch.spark.master"
CONF = "execution.batch.spark.conf."
FILES = (Path("/t/main.py"), Path("/t/program.json"))


def made(options: SparkOptions, program: Program, *, is_in_cluster: bool = False) -> str:
    return " ".join(command("spark-submit", options, program, Path("/t/flinkpy.zip"), FILES, is_in_cluster))


def test_a_driver_on_this_host_reads_the_program_where_it_is() -> None:
    options = SparkOptions({"--master": "local[2]", "--py-files": "a.py,b.zip"}, {"spark.x": "y z"})
    assert made(options, Program("/home/me/job.py", ("--in", "x"))) == (
        "spark-submit --master local[2] --py-files /t/flinkpy.zip,a.py,b.zip --name job.py --conf spark.x=y z "
        "/t/main.py /t/program.json"
    )


def test_a_driver_in_the_cluster_gets_the_program_as_a_file() -> None:
    options = SparkOptions({"--master": "yarn", "--deploy-mode": "cluster", "--files": "table.txt", "--name": "mine"})
    assert made(options, Program("/home/me/job.py"), is_in_cluster=True) == (
        "spark-submit --master yarn --deploy-mode cluster --files /t/program.json,/home/me/job.py,table.txt "
        "--name mine --py-files /t/flinkpy.zip /t/main.py program.json"
    )


def test_flinkpys_options_of_the_jvm_are_passed_on_but_those_of_the_command_line_win() -> None:
    configuration = {
        MASTER: "spark://a:7077",
        f"{CONF}spark.driver.memory": "1g",
        f"{CONF}spark.driver.cores": "1",
        f"{CONF}spark.authenticate.secret": "hidden",
    }
    told = made(SparkOptions(conf={"spark.driver.memory": "2g"}), Program("job.py", configuration=configuration))
    assert "--master spark://a:7077" in told
    assert "--conf spark.driver.memory=2g --conf spark.driver.cores=1" in told
    assert "hidden" not in told
    assert "--master local" in made(SparkOptions({"--master": "local"}), Program("job.py", configuration=configuration))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"--master": "spark://a:7077", "--deploy-mode": "cluster"}, "no drivers of Python programs"),
        ({"--master": "sc://a"}, "is a Spark Connect server"),
    ],
)
def test_masters_that_run_no_driver_of_a_program_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        is_cluster_mode(SparkOptions(values))


def test_no_secret_of_flinkpys_configuration_is_on_the_command_line() -> None:
    conf = "execution.batch.spark.conf."
    keys = (
        "spark.kubernetes.authenticate.oauthToken",
        "spark.kubernetes.authenticate.submission.oauthToken",
        "spark.yarn.historyServer.password",
    )
    told = made(SparkOptions(), Program("/jobs/p.py", (), {f"{conf}{key}": "do-not-tell" for key in keys}))
    assert "do-not-tell" not in told


def test_the_mode_may_be_an_option_or_a_key() -> None:
    assert is_cluster_mode(SparkOptions({"--master": "yarn", "--deploy-mode": "cluster"}))
    assert is_cluster_mode(SparkOptions({"--master": "yarn"}, {"spark.submit.deployMode": "cluster"}))
    assert not is_cluster_mode(SparkOptions({"--master": "yarn"}))


def test_a_python_is_chosen_only_if_nothing_names_one() -> None:
    local, remote = SparkOptions({"--master": "local[2]"}), SparkOptions({"--master": "yarn"})
    here = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert environment_of(local, Program("job.py"), {}) == {**here, "PYSPARK_PYTHON": sys.executable}
    assert environment_of(remote, Program("job.py"), {}) == here
    assert environment_of(local, Program("job.py"), {"PYSPARK_PYTHON": "p"}) == {"PYSPARK_PYTHON": "p"}
    assert environment_of(SparkOptions(conf={"spark.pyspark.python": "p"}), Program("job.py"), {}) == {}


def test_spark_home_goes_first_and_must_have_a_spark_submit(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    with pytest.raises(UserError, match=f"SPARK_HOME is {tmp_path}, but there is no"):
        spark_submit_path({"SPARK_HOME": str(tmp_path)})
    submit = tmp_path / "bin" / "spark-submit"
    submit.touch(mode=0o755)
    assert spark_submit_path({"SPARK_HOME": str(tmp_path), "PATH": ""}) == str(submit)
    assert spark_submit_path({"PATH": str(submit.parent)}) == str(submit)
    assert spark_submit_path({"PATH": ""}).endswith("pyspark/bin/spark-submit")


def test_only_the_user_can_read_the_configuration(tmp_path: Path) -> None:
    program = Program("/home/me/job.py", ("x",), {"a": "secret"}, True)
    _, described = write_files(tmp_path, program, REQUIRED, False)
    assert stat.S_IMODE(described.stat().st_mode) == 0o600
    assert read_program(described) == program


def test_the_driver_names_the_modules_that_its_python_lacks(tmp_path: Path) -> None:
    main, described = write_files(tmp_path, Program("job.py"), ("no_such_module", "json"), False)
    ended = subprocess.run([sys.executable, main, described], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f"the Python of Spark's driver, {sys.executable}, cannot import no_such_module" in ended.stderr


def test_flinkpy_runs_from_its_archive_with_the_packages_that_are_not_installed(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    names = zipfile.ZipFile(archive).namelist()
    assert len(names) == len(set(names))
    code = (
        "import flinkpy.spark.driver.submission, cloudpickle, click, yaml, google.protobuf; "
        "print(*(one.__file__ for one in (flinkpy, cloudpickle, click, yaml, google.protobuf)))"
    )
    # Without `site` no package is installed.
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert [path.startswith(str(archive)) for path in ended.stdout.split()] == [True] * 5
