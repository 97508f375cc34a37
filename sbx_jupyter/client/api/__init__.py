"""The platform API and the runtime API over HTTP, with one method for each of their operations.

``transport.py`` retries requests and raises errors; the records are those of ``protocol/``. What
the interface does not say of a request does not belong here.
"""
