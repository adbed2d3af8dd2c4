"""Complex event processing: patterns over the rows of a key, and how they are found.

| module | |
|---|---|
| `pattern` | what a pattern is: variables, quantifiers, contiguity, time limit, where to go on after a match |
| `nfa_compiler` | turns a pattern into the states and transitions of an automaton |
| `match_kernel` | runs the automaton over sorted rows, for patterns whose rows follow one another without gaps |
| `condition_programs` | conditions over the rows of a partial match, as programs that the kernel runs |

Nothing here knows SQL, streams, clocks or threads. MATCH_RECOGNIZE is `streaming.operators.table.match_operator`.

Source: org.apache.flink.cep.
"""
