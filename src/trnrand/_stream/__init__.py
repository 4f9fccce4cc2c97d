"""The stream of random words: state, position, prefetch."""
