"""The deployments that a Jupyter server uses: connections, their states, the bundled engine."""
