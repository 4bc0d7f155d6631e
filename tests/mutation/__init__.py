"""Mutation testing: break the code on purpose, one small change at a time, and see that a test fails.

The tests are run once to see which of them reach which line and which SQL statement. Then every mutant gets a process of its own, forked
from one that has imported everything and collected the tests; it runs the tests that reach the mutant, the quickest first, until one
fails. A mutant of what a module runs when it is imported gets a process that imports the library anew. ``make mutate`` runs it.
"""
