"""Tests that break things on purpose: processes, disks, power. Each part gives a ``Report`` of what it did and what did not hold."""
