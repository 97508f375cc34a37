"""Records and codecs of the two HTTP interfaces, the agent's channel and ``/proc``; no I/O."""
