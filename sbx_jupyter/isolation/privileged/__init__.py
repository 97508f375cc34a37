"""The helper: a process with root's privileges that an engine without any asks by messages.

``account.py`` and ``view.py`` take the privileges from the engine, ``supervisor.py`` starts
helpers, ``helper.py`` is the helper, ``messages.py`` what it is asked, and ``remote_fence.py`` the
engine's side. Nothing here parses HTTP.
"""
