"""The command line. Each command translates: it reads what was typed, calls one method, and shows the answer."""
