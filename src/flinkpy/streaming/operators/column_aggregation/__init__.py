"""Aggregates over columns in batch mode: hash aggregation with Arrow, in bounded memory.

```
rows -> PartialAggregates.group (a large chunk at a time) -> partial results -> merged when they have doubled
                                                              | if they exceed the memory: to 16 files by key hash;
                                                              v each file is merged by itself at the end
```
"""
