"""Records and codecs of the two HTTP interfaces and of the agent's channel; no I/O."""
