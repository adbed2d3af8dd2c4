"""Aggregates over columns in batch mode: hash aggregation by Arrow, with memory that is bounded.

```
rows -> PartialAggregates.group (a big chunk at a time) -> partial results -> merged when they have doubled
                                                              | more than the memory: by the key's hash to 16 files,
                                                              v each of which is merged by itself at the end
```
"""
