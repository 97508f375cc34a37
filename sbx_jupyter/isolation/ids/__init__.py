"""Which ids of the host each sandbox runs under, where the engine is root.

Standard library only, for the zygote.
"""
