"""The exchange of batches between tasks: result partitions, input gates, credits and buffer pools.

Sockets are opened only in `flinkpy.network.transport`.
"""
