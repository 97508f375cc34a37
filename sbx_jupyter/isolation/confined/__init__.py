"""The Landlock tier: a sandbox without namespaces, held by a domain, filters and a keeper outside.

``keeper.py`` is the process that stays outside; ``setup.py`` runs inside, before the agent. The
zygote forks both: standard library only, and keep imports few.
"""
