"""Backends: the choice between torch and kernels, settings, operations, launches, explanations."""
