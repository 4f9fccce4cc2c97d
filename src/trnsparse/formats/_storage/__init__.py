"""Storage of each format: its arrays, their validation, and the operations within one format."""
