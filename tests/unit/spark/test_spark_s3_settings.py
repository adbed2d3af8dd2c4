"""Spark gets the options for S3 of jobs that read files there, and no command line has them."""

from __future__ import annotations

from flinkpy.common import Types
from flinkpy.connectors.file_source import FileSource
from flinkpy.graph.operator_specs import SourceSpec
from flinkpy.graph.spark_region import SparkNode, SparkRegion
from flinkpy.spark.java_gateway import submission
from flinkpy.spark.s3_settings import with_s3
from flinkpy.spark.settings import settings_of

S3 = {
    "s3.access-key": "the key",
    "s3.secret-key": "the secret",
    "s3.endpoint": "http://localhost:9000",
    "s3.path.style.access": "true",
}
MASTER = {"execution.batch.spark.master": "spark://host:7077"}


def region_of(path: str) -> SparkRegion:
    source = FileSource.for_json(path, schema={"n": Types.LONG()})
    node = SparkNode(1, "files", "uid", "op", SourceSpec(source), 1, ())
    return SparkRegion((node,), (), ())


def conf_of(path: str, configuration: dict[str, str]) -> dict[str, str]:
    return dict(with_s3(settings_of(configuration), region_of(path), configuration).conf)


def test_a_job_that_reads_from_s3_gives_spark_its_options() -> None:
    conf = conf_of("s3://bucket/data", {**MASTER, **S3})
    assert {key: value for key, value in conf.items() if "s3a" in key} == {
        "spark.hadoop.fs.s3a.access.key": "the key",
        "spark.hadoop.fs.s3a.secret.key": "the secret",
        "spark.hadoop.fs.s3a.endpoint": "http://localhost:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def test_jobs_that_read_elsewhere_keep_their_session() -> None:
    configuration = {**MASTER, **S3}
    assert with_s3(settings_of(configuration), region_of("/data"), configuration) == settings_of(configuration)


def test_a_staging_directory_in_a_bucket_needs_the_options_too() -> None:
    staging = {"execution.batch.spark.staging-dir": "s3a://bucket/staging"}
    assert conf_of("/data", {**MASTER, **S3, **staging})["spark.hadoop.fs.s3a.access.key"] == "the key"


def test_settings_of_spark_win() -> None:
    own = {"execution.batch.spark.conf.spark.hadoop.fs.s3a.access.key": "another"}
    assert conf_of("s3a://bucket/data", {**MASTER, **S3, **own})["spark.hadoop.fs.s3a.access.key"] == "another"


def test_credentials_are_not_on_the_command_line_of_the_driver() -> None:
    command = submission("spark-submit", conf_of("s3://bucket/data", {**MASTER, **S3}))
    assert not any("the secret" in word or "the key" in word for word in command)
