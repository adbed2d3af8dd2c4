"""How files are read into batches and written from them: text lines, CSV, Parquet.

`file_format` has the contracts. The classes that a job carries (`text_line`, `csv_format`, `parquet_format`) import
neither pyarrow nor numpy, because the JobMaster unpickles them with their source.
"""
