"""NamespacedKey: a key together with what its state is for, such as a window of that key.

To the state backends it is a key like any other, except that only the first part, the key of the stream, says which key
group it is of. So state of a window goes where its key goes.

Source: the namespaces of org.apache.flink.runtime.state.internal.InternalKvState.
"""

from __future__ import annotations


class NamespacedKey(tuple):
    """`(key, *parts of the namespace)`. Equal to, and hashing as, the plain tuple, so that a dict of such keys can be
    looked up with plain tuples."""

    __slots__ = ()
