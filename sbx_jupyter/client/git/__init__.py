"""Git in a sandbox: repositories, branches, remotes, their state."""
