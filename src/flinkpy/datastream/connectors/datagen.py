"""DataGeneratorSource and what limits its speed. Beyond PyFlink: flink-connector-datagen has no Python there."""

from flinkpy.connectors.datagen import DataGeneratorSource, GeneratorFunction
from flinkpy.connectors.rate_limiter import RateLimiterStrategy

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]
