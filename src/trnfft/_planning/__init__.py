"""Planning: choice of algorithm, factors, constants and cost of a transform."""
