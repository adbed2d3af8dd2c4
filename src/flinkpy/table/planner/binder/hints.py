"""QueryHints: the hints of one SELECT, checked, and which of them a join or an aggregation takes.

A hint names tables of FROM by their aliases, or by their names where there is no alias. It does not apply to joins in
views and subqueries.

Source: org.apache.flink.table.planner.hint.{FlinkHintStrategies, QueryHintsResolver}.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.table.planner.binder.scope import Relation
from flinkpy.table.planner.errors import invalid
from flinkpy.table.planner.hints import LookupHint, duration_ms
from flinkpy.table.planner.logical.nodes import Hint

LEFT, RIGHT = "LEFT", "RIGHT"
#: Hints about how a batch job joins, which have no effect, and MULTI_JOIN.
_STRATEGIES = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")
_KNOWN = ("STATE_TTL", "LOOKUP", *_STRATEGIES)


class QueryHints:
    """Raises: ValidationError for unknown hints and wrong options."""

    def __init__(self, hints: Sequence[ast.Hint]) -> None:
        self._hints = [(hint.name.upper(), hint) for hint in hints]
        self._used: set[tuple[int, str]] = set()
        for name, hint in self._hints:
            _check(name, hint)

    def of_join(self, left: Sequence[Relation], right: Sequence[Relation]) -> tuple[Hint, ...]:
        """Returns the hints that name an input of a join, with LEFT or RIGHT for its table."""
        sides = [(side, each[0]) for side, each in ((LEFT, left), (RIGHT, right)) if len(each) == 1]
        found: list[Hint] = []
        for number, (name, hint) in enumerate(self._hints):
            for side, relation in sides:
                for table, value in _tables(name, hint):
                    if not relation.matches(tuple(table.split("."))):
                        continue
                    self._used.add((number, table))
                    if name == "LOOKUP":
                        found.append((name, tuple((option.key, option.value) for option in hint.options)))
                    else:
                        found.append((name, ((side, value),)))
        return tuple(found)

    def of_aggregate(self, relations: Sequence[Relation]) -> int | None:
        """Returns the time-to-live in ms of an aggregation's state; None if no hint names its input."""
        ttl_ms = None
        for number, (name, hint) in enumerate(self._hints):
            if name != "STATE_TTL" or len(relations) != 1:
                continue
            for table, value in _tables(name, hint):
                if relations[0].matches(tuple(table.split("."))):
                    self._used.add((number, table))
                    ttl_ms = duration_ms(value)
        return ttl_ms

    def check_names(self) -> None:
        """Checks that each hint has found its tables. Raises: ValidationError otherwise."""
        missing: dict[str, list[str]] = {}
        for number, (name, hint) in enumerate(self._hints):
            for table, _ in _tables(name, hint):
                if (number, table) not in self._used and table not in missing.setdefault(name, []):
                    missing[name].append(table)
        lines = [f"`{', '.join(tables)}` in `{name}`" for name, tables in missing.items() if tables]
        if lines:
            culprit = next(hint for name, hint in self._hints if missing.get(name))
            raise invalid(
                culprit,
                "The options of following hints cannot match the name of input tables or views: \n" + "\n".join(lines),
            )


def _tables(name: str, hint: ast.Hint) -> list[tuple[str, str]]:
    """Returns the tables that a hint names, each with its value."""
    if name == "STATE_TTL":
        return [(option.key or "", option.value) for option in hint.options]
    if name == "LOOKUP":
        return [(option.value, "") for option in hint.options if option.key == "table"]
    return [(option.value, "") for option in hint.options]


def _check(name: str, hint: ast.Hint) -> None:
    if name not in _KNOWN:
        if name == "OPTIONS":
            raise invalid(hint, "The hint OPTIONS stands behind the name of a table, not behind SELECT.")
        raise invalid(
            hint, f"Hint: {name} should be registered in the HintStrategyTable. Known hints: {', '.join(_KNOWN)}"
        )
    keys = [option.key for option in hint.options]
    if name in _STRATEGIES:
        if not keys or any(key is not None for key in keys):
            raise invalid(hint, f"Invalid hint: {name}, expecting at least one table or view specified in hint {name}.")
        return
    if None in keys:
        raise invalid(hint, f"Invalid list options in {name} hint, only support key-value options.")
    if not keys:
        raise invalid(hint, f"Invalid {name} hint, expecting at least one key-value options specified.")
    try:
        if name == "LOOKUP":
            LookupHint.of([(option.key, option.value) for option in hint.options])
        else:
            for option in hint.options:
                duration_ms(option.value)
    except ValidationError as error:
        raise invalid(hint, error.message) from error
