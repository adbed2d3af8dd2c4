"""NamespacedKey: a key with a namespace, for example a window, to which the state belongs.

State backends treat it like any other key, but only its first part, the key of the stream, determines the key group.
So the state of a window is in the key group of its key.

Source: the namespaces of org.apache.flink.runtime.state.internal.InternalKvState.
"""

from __future__ import annotations


class NamespacedKey(tuple):
    """A tuple `(key, *parts of the namespace)`.

    It is equal to the plain tuple and has the same hash, so that plain tuples can look up such keys in a dict.
    """

    __slots__ = ()
