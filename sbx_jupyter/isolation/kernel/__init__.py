"""System calls and kernel interfaces that Python does not offer, one module each; no policy.

Nothing here knows sandboxes. Add a call to ``syscalls.py`` with its number for x86-64 and AArch64.
"""
