"""Translates the operators of a region to passes over Spark DataFrames, and runs these in Python workers."""
