"""NotExpressible: Spark has nothing that does exactly this, so Python workers must."""

from __future__ import annotations


class NotExpressible(Exception):
    """Names an operation that Spark has no exact equal for, so Python workers run it.

    It never leaves `flinkpy.spark.columns`.
    """
