"""The equi-join of two streams of columns: a hash join whose build side is input 1.

```
build rows ---> BuildSide (in memory) <--- probe rows, batch by batch ---> results
      | if it exceeds the memory: both sides to 16 files by key hash; each pair of files is joined by itself
```
"""
