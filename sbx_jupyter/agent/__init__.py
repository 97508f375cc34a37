"""The agent: PID 1 of a sandbox; standard library only."""
