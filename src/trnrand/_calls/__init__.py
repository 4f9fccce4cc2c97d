"""Calls of distributions: arguments, requests, transforms of torch, and graphs."""
