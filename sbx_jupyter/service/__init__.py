"""The HTTP server of the engine: platform API, gateway and runtime API on one address."""
