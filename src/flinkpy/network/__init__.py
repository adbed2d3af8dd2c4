"""How batches move between tasks: result partitions, input gates, credits and bounded buffer pools.

Nothing here opens a socket; that is `flinkpy.network.transport`.
"""
