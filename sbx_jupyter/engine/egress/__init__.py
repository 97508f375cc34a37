"""What a sandbox may reach outside: decided and dialled by the engine (interface 8)."""
