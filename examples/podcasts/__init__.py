"""A web back end whose users have their scripts made into audio, with Onward doing the work behind it."""
