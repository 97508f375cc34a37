"""The HTTP face of the engine: platform API, gateway and runtime API on one address."""
