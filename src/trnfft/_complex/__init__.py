"""Complex numbers as pairs of real tensors."""
