"""Other people's programs that use the interface, unmodified, against a real engine."""
