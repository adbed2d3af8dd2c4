"""The Spark backend: regions of a batch job that run in Spark. The only package that imports pyspark."""
