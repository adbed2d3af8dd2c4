"""A cluster whose services and tasks are threads of the user's program (`execution.target: local-threads`).

Source: org.apache.flink.runtime.minicluster, org.apache.flink.client.program.PerJobMiniClusterFactory.
"""
