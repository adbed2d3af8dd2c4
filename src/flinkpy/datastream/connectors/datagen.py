"""DataGeneratorSource and its rate limiters. Beyond PyFlink, which has no API for flink-connector-datagen."""

from flinkpy.connectors.datagen import DataGeneratorSource, GeneratorFunction
from flinkpy.connectors.rate_limiter import RateLimiterStrategy

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]
