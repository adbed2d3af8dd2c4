"""Formats of files and messages: text lines, CSV, JSON, Avro, Parquet and ORC.

`file_format` has the interfaces. The modules of classes that a job contains (`text_line` and `*_format`) import neither
pyarrow nor numpy, because the JobMaster unpickles these classes with their source.
"""
