"""How a program reaches a cluster: submission, the embedded cluster, and handles on running jobs."""
