"""The stream of random words: engines, state, position, prefetch."""
