"""The gateway: decides for each request which sandbox and port it is for, and forwards it.

``dispatch.py`` sees every request first. It never parses bodies.
"""
