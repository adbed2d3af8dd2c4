"""DataGeneratorSource and its rate limiters. Beyond PyFlink, which has no API for flink-connector-datagen."""

from flinkpy.connectors.datagen import DataGeneratorSource, GeneratorFunction, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]
