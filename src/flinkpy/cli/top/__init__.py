"""`flinkpy top`: a live view of a cluster.

`snapshot` has the typed view of a cluster at one time, `collector` asks the cluster for it, `plain` prints it once, and
`app` shows it live.
"""
