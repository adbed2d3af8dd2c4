"""Parser of Flink's SQL dialect: text in, immutable syntax trees out. It resolves no names."""
