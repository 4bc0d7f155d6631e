"""Jobs in a Postgres database."""
