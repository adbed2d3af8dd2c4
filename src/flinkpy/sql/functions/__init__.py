"""Built-in functions of SQL: their definitions with type inference, Arrow kernels, and the evaluation of expressions.

`registry` finds a definition by name and creates calls. `evaluation` computes bound expressions over RecordBatches.
"""

from flinkpy.sql.functions.evaluation import CompiledExpressions, compile_expressions

__all__ = ["CompiledExpressions", "compile_expressions"]
