"""Results along the free dimension: reductions, recurrences, statistics, largest values."""
