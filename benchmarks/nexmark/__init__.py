"""nexmark: the queries of Nexmark as SQL, here and on Flink, with the same events and the same results."""
