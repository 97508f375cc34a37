"""Reads Dockerfiles: their text, their variables, and the steps of the template that they mean.

Other packages use ``steps.parse_dockerfile``; nothing here does I/O.
"""
