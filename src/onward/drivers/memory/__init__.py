"""A store in dictionaries: as real as the others, gone with the process. For quick tests."""

from onward.drivers.memory.store import MemoryStore

__all__ = ["MemoryStore"]
