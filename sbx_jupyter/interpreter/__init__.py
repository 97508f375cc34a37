"""The code interpreter: a program that runs inside a sandbox and serves kernels over HTTP.

It is sent into the sandbox as an archive and imported by nothing else (interface 5).
"""
