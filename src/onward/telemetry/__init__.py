"""Subscribers to what happens, one a file."""
