"""Leader election, leader retrieval, and the stores that outlive a leader."""
