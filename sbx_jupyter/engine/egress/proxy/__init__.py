"""The egress proxy on a sandbox's loopback interface: HTTP, CONNECT and SOCKS5.

Start at ``server.py``. Every outgoing connection passes ``dialer.py``, which checks the address
that is dialled; no other module may open a connection to the outside.
"""
