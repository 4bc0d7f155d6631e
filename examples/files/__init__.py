"""A small application whose data are JSON files, with Onward as the outbox beside them."""
