"""Container images as the base of builds.

``image_store.py`` is the entry. Image contents are hostile: sizes, names and headers are checked
before anything is unpacked.
"""
