"""The planner of SQL and the Table API: binds queries, optimises them and turns them into Transformations."""
