"""A region's operators as passes over Spark DataFrames."""
