"""How many subtasks a vertex of a batch job gets, decided when all it reads is there, and who of them reads what."""
