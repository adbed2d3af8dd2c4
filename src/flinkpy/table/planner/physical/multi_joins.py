"""JoinChain: the joins over one key that one multi-way join computes.

Source: org.apache.flink.table.runtime.operators.join.stream.keyselector.AttributeBasedJoinKeyExtractor,
org.apache.flink.table.planner.plan.rules.logical.JoinToMultiJoinRule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkpy.graph.table_specs import JoinType, MultiJoinStep
from flinkpy.sql.rex import InputRef, RexCall, RexNode, moved
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.binder.hints import LEFT, RIGHT
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.physical.interval_joins import interval_bounds
from flinkpy.table.planner.rules.windows import window_join

#: An input of a chain, and a column of it.
_Column = tuple[int, int]


@dataclass(frozen=True, slots=True)
class JoinChain:
    """A chain of joins: the first input, then each further one with those before it.

    Attributes:
        inputs: the inputs.
        join_types: of inputs 1, 2, ...
        conditions: of inputs 1, 2, ..., over the columns of all inputs up to each.
        columns: for each column of the last join, its place among the columns of all inputs.
        ttls: for each input, the time-to-live of its state as a hint gives it; None without one.
    """

    inputs: tuple[rel.RelNode, ...]
    join_types: tuple[JoinType, ...]
    conditions: tuple[RexNode, ...]
    columns: tuple[int, ...]
    ttls: tuple[str | None, ...]

    @property
    def width(self) -> int:
        return sum(each.width for each in self.inputs)

    def keys(self) -> tuple[tuple[int, ...], ...]:
        """Returns for each input the columns of the key that all joins have in common. They may be none.

        Each join compares the columns of the key themselves: a column that is equal to one of them only where an outer
        join finds a partner does not say where a row without a partner belongs.
        """
        steps = [self._equalities(number) for number in range(1, len(self.inputs))]
        classes = _classes([pair for pairs in steps for pair in pairs])
        common = [each for each in classes if all(any(a in each for a, _ in pairs) for pairs in steps)]
        keys = [
            tuple(min(column for owner, column in each if owner == number) for number in range(len(self.inputs)))
            for each in common
        ]
        compared = [each for each in keys if all(any(_compares(pair, each) for pair in pairs) for pairs in steps)]
        return tuple(zip(*sorted(compared))) or ((),) * len(self.inputs)

    def step(self, number: int, keys: tuple[tuple[int, ...], ...]) -> MultiJoinStep:
        """Returns how an input is joined, where the rows of one key are known to be together."""
        requires: set[int] = set()
        rest: list[RexNode] = []
        for condition in operators.conjuncts(self.conditions[number - 1]):
            pair = self._equality(condition, number)
            is_of_key = pair is not None and any(_compares(pair, key) for key in zip(*keys))
            if pair is not None and is_of_key:
                requires.add(pair[0][0])
            else:
                rest.append(condition)
        remaining = operators.and_(rest) if rest else None
        return MultiJoinStep(self.join_types[number - 1], tuple(sorted(requires)), remaining)

    def _equalities(self, number: int) -> list[tuple[_Column, _Column]]:
        found = (self._equality(each, number) for each in operators.conjuncts(self.conditions[number - 1]))
        return [each for each in found if each is not None]

    def _equality(self, condition: RexNode, number: int) -> tuple[_Column, _Column] | None:
        """Returns the columns of `=` between an input and one before it; None for other conditions."""
        if not isinstance(condition, RexCall) or condition.function != "=":
            return None
        sides = condition.arguments
        if not all(isinstance(each, InputRef) for each in sides):
            return None
        left, right = sorted(self._column(each.index) for each in sides)  # type: ignore[attr-defined]
        return (left, right) if left[0] < number == right[0] else None

    def _column(self, place: int) -> _Column:
        for number, each in enumerate(self.inputs):
            if place < each.width:
                return number, place
            place -= each.width
        raise AssertionError(f"there is no column {place}")


def _compares(pair: tuple[_Column, _Column], key: tuple[int, ...]) -> bool:
    """True if both columns are those of a key, of which each input has one."""
    return all(key[owner] == column for owner, column in pair)


def _classes(pairs: list[tuple[_Column, _Column]]) -> list[set[_Column]]:
    """Returns the sets of columns that are equal."""
    classes: list[set[_Column]] = []
    for pair in pairs:
        touched = [each for each in classes if each & set(pair)]
        classes = [each for each in classes if each not in touched]
        classes.append(set(pair).union(*touched))
    return classes


def join_chain(node: rel.Join) -> JoinChain | None:
    """Returns the chain that ends with a join; None if the join is no part of one."""
    if node.chain is rel.ChainRole.NONE or window_join(node) is not None or interval_bounds(node) is not None:
        return None
    given = dict(option for name, options in node.hints if name == "STATE_TTL" for option in options)
    before = _chain_before(node)
    if before is not None:
        longer = _joined(before, node, given.get(RIGHT))
        if longer.keys()[0]:
            return longer
    columns = tuple(range(node.left.width))
    return _joined(JoinChain((node.left,), (), (), columns, (given.get(LEFT),)), node, given.get(RIGHT))


def _joined(chain: JoinChain, node: rel.Join, ttl: str | None) -> JoinChain:
    """Returns the chain with the right input of a join."""
    width = node.left.width
    columns = (*chain.columns, *range(chain.width, chain.width + node.right.width))
    condition = moved(node.condition, lambda place: columns[place])
    assert len(columns) == width + node.right.width
    return JoinChain(
        (*chain.inputs, node.right),
        (*chain.join_types, node.join_type),
        (*chain.conditions, condition),
        columns,
        (*chain.ttls, ttl),
    )


def _chain_before(node: rel.Join) -> JoinChain | None:
    """Returns the chain of the left input, which may be below a projection that drops columns; None without one."""
    if node.chain is not rel.ChainRole.NEXT:
        return None
    below, columns = node.left, tuple(range(node.left.width))
    while isinstance(below, rel.Project):
        references = [each for each in below.expressions if isinstance(each, InputRef)]
        if len(references) < below.width:
            return None
        columns = tuple(references[place].index for place in columns)
        below = below.input
    chain = join_chain(below) if isinstance(below, rel.Join) else None
    return None if chain is None else replace(chain, columns=tuple(chain.columns[place] for place in columns))
