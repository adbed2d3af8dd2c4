"""NotExpressible: Spark has nothing that does exactly this, so Python workers must."""

from __future__ import annotations


class NotExpressible(Exception):
    """Says what it is that has no equal in Spark. Never leaves `flinkpy.spark.columns`."""
