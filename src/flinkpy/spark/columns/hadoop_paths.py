"""The names under which Spark, by Hadoop's file systems, finds the files of flinkpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.formats.input_files import is_remote
from flinkpy.spark.columns.names import NotExpressible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: File systems that every Spark has.
_HADOOP_SCHEMES = frozenset({"hdfs", "viewfs"})
#: Flink's schemes of S3. Hadoop's is s3a.
_S3_SCHEMES = frozenset({"s3", "s3n", "s3p"})


def hadoop_uri(session: SparkSession | None, path: str) -> str:
    """Returns the URI of a local path or of a URI of flinkpy.

    Args:
        session: None before Spark runs. Then Spark counts as able to reach all file systems.

    Raises: NotExpressible if Spark cannot reach the file system.
    """
    if not is_remote(path):
        # Without a scheme, a path would be one of Hadoop's default file system.
        return f"file://{path}"
    scheme, _, rest = path.partition(":")
    scheme = scheme.lower()
    if session is None or scheme in _HADOOP_SCHEMES:
        return path
    if scheme in _S3_SCHEMES and not _has_file_system(session, scheme):
        scheme = "s3a"
    if not _has_file_system(session, scheme):
        missing = "s3a:// (hadoop-aws and the SDK of AWS)" if scheme == "s3a" else f"{scheme}://"
        raise NotExpressible(f"{path}: Spark has no file system for {missing}")
    return f"{scheme}:{rest}"


def _has_file_system(session: SparkSession, scheme: str) -> bool:
    """Returns False for Spark Connect, whose server cannot be asked."""
    context: Any = getattr(session, "_sc", None)
    if context is None:
        return False
    from py4j.protocol import Py4JJavaError

    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
    except Py4JJavaError:
        return False
    return True


def is_seen_by_hadoop(name: str) -> bool:
    """True if Spark reads a file or directory of this name in a directory."""
    if name.startswith("_"):
        return "=" in name
    return not name.startswith(".") and not name.endswith("._COPYING_")
