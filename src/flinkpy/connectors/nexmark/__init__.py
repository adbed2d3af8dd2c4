"""The events of the Nexmark benchmark: an online auction with persons, auctions and bids.

Source: https://github.com/nexmark/nexmark, com.github.nexmark.flink.
"""

from flinkpy.connectors.nexmark.options import NexmarkOptions
from flinkpy.connectors.nexmark.schema import EventType
from flinkpy.connectors.nexmark.source import NexmarkSource, NexmarkSplit

__all__ = ["EventType", "NexmarkOptions", "NexmarkSource", "NexmarkSplit"]
