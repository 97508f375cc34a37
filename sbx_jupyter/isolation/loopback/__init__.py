"""A loopback interface without a network namespace: the keeper answers the calls about sockets.

Every socket of a program is one end of a connected pair of Unix sockets, whose other end the keeper
holds until the program connects. So no address exists in the kernel, and no byte passes the keeper.
"""
