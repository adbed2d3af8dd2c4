"""The join of two streams by equal columns: a hash join whose build side is input 1.

```
build rows ---> BuildSide (in memory) <--- probe rows, batch by batch ---> results
      | more than the memory: both sides by the key's hash to 16 files, and each pair of files is joined by itself
```
"""
