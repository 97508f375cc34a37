"""How a sandbox is fenced on this kernel: namespaces, or Landlock, and limits.

``tiers.py`` finds out what the machine can do, ``fence.py`` starts cages by it, and ``cage.py`` is
one of them; ``privileged/remote_fence.py`` does the same through the helper. The engine imports
from here and nothing here knows of the engine: its store, rows and states.
"""
