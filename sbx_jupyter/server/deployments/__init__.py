"""The deployments that a Jupyter server uses: connections, their states, the bundled engine.

``connections.py`` has them by name, ``connection.py`` is one of them: handlers get theirs as
``self.connection``. ``local_engine.py`` starts the engine of this machine, and ``relay.py`` and
``session_key.py`` are what kernels of this server see of it.
"""
