"""Logs of processes: each line names its job and task; files are rotated, searched, and merged per job.

```
   user code: logging, print, warnings      flinkpy's own loggers
              |                                    |
   context.py: the job, vertex, subtask and attempt of the current thread or coroutine
              |                                    |
   handler.py: level per job, rate limits  ->  formats.py: text or JSON  ->  log_file.py: one file, rotated
                                                                                  |
                                             reader.py: records by job, level, task, text and time
```

`setup.py` connects these parts when a process starts. See docs/decisions/0055-every-log-line-names-its-task.md.
"""
