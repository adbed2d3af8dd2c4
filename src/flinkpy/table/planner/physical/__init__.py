"""Physical plans, whose nodes are operators, and their translation into Transformations."""
