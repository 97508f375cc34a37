"""Records and codecs of the two HTTP interfaces, the agent's channel and ``/proc``; no I/O.

Every package may import from here, so that both ends of a wire share one record. Names of fields
are those on the wire: they change with the interface only, and what is added is optional.
"""
