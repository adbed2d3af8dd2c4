"""Clusters on Kubernetes: the objects they consist of, and the client of the API server."""
