"""Runs jobs: claims, handlers, leases, and the way to stop."""
