"""Chooses the certificate authorities that the client trusts."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

import httpx

from sbx_jupyter.errors import InvalidArgumentError

CA_FILE_VARIABLE: Final = "SBX_CA_FILE"


def create_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that verifies the server's certificate and name.

    It trusts the authorities in ``ca_file``; without one, those that ``SSL_CERT_FILE`` and
    ``SSL_CERT_DIR`` name; without these, the usual public ones. Takes about 20 ms. Raises
    ``InvalidArgumentError`` when a file or directory cannot be used.
    """
    if ca_file is not None:
        return _trusting(ca_file, None, "the certificate authority file")
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if folder and not Path(folder).is_dir():
        raise InvalidArgumentError(f"SSL_CERT_DIR: {folder} is not a directory")
    if file or folder:
        return _trusting(file or None, folder or None, "SSL_CERT_FILE")
    return httpx.create_ssl_context(trust_env=False)


def create_refusing_context() -> ssl.SSLContext:
    """Return a context that trusts no server at all, for clients that speak plain HTTP only.

    Takes next to no time.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def check_ca_file(path: str) -> None:
    """Raise ``InvalidArgumentError`` unless ``path`` holds certificates in PEM form."""
    _trusting(path, None, "the certificate authority file")


def _trusting(file: str | None, folder: str | None, source: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except ssl.SSLError:
        raise InvalidArgumentError(f"{source}: {file} holds no certificates in PEM form") from None
    except OSError as error:
        raise InvalidArgumentError(f"{source}: cannot read {file}: {error.strerror}") from None
