"""TPC-H as SQL in batch mode: ours, PySpark and DuckDB on the same Parquet files."""
