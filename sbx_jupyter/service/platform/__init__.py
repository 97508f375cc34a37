"""The platform API: one module per resource (interface 1).

Handlers check and translate; what happens is decided in ``engine``. A new endpoint needs an
``Operation`` from ``operation_spec.py`` and a row in ``server.py``.
"""
