"""Templates: catalogue, tags, listing, uploads, and their builds and container images.

``service.py`` is the entry for handlers, which import checks of requests besides. Other packages of
the engine use ``catalogue.py`` and ``references.py``, and of ``builds/`` and ``images/`` only
``build_log.py``.
"""
