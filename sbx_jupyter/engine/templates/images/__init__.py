"""Container images as the base of builds: registries, archives, blobs and their layers.

Image contents are hostile: sizes, names and headers are checked before anything is unpacked.
"""
