"""Yardsticks: what plain Python can reach on a database. They promise nothing: no lease, no retry, no fence, no history."""
