"""SQL below the Table API: the parser, logical types, bound expressions, and functions with their Arrow kernels."""
