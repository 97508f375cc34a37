"""Storage that outlives sandboxes: volumes and what is in them (interface 1.6).

``volumes.py`` is the entry; ``subordinate.py`` makes the directories where files have the ids of
sandboxes. The content is read and changed through ``isolation/stored``, never by paths.
"""
