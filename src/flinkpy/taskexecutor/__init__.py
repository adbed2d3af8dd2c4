"""The worker process: slots, task life cycle and task threads. The only package where control and data path meet."""
