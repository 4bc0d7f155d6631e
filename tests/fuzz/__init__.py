"""Hostile input for everything that reads text: see ``__main__``."""
