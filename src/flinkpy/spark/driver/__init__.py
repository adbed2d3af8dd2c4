"""Runs whole batch programs in the Spark session of this process, without a flinkpy cluster.

The option `execution.target: spark` and `flinkpy spark-submit` use it.

| module | |
|---|---|
| `executor` | takes the jobs of the program, like `flinkpy.client.executor` for clusters |
| `driver_job` | the parts of a JobGraph that the driver runs itself |
| `execution` | runs one job |
| `local_sinks` | `print` and `execute_and_collect` in the driver |
| `commit_log` | the committables of a job in durable files, so that another attempt of the driver commits the same |
| `attached_spark` | the session that the program runs in |
"""
