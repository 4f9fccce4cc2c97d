"""Positions of the stored entries, and conversions between formats."""
