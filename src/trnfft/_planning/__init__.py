"""Planning: how a problem is cut and ordered before it is computed."""
