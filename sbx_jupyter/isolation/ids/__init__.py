"""Which ids of the host each sandbox runs under, where the engine is root.

``blocks.py`` gives each sandbox a block of ids, ``own_ids.py`` has it held by the process of
``holder.py``, and ``local_ids.py`` knows the ids that are taken. Standard library only, for the
zygote; the engine and its settings import ``blocks.py`` alone.
"""
