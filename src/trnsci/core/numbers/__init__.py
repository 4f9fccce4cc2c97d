"""Numbers in tensors: conversions, constant tables, products, and code that reads values."""
