"""Pulls images from container registries with ``oras``; blocking.

Every document and layer is checked against its digest.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbx_jupyter.engine.templates.images.aws import registry_login
from sbx_jupyter.engine.templates.images.oci import (
    MAX_JSON,
    MAX_LAYERS,
    Index,
    Manifest,
    assemble,
    check_digest,
    choose,
    decode,
    is_index,
)
from sbx_jupyter.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    see,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    # oras has no type stubs.
    from oras.provider import Registry  # pyright: ignore[reportMissingTypeStubs]

    from sbx_jupyter.engine.templates.images.blobs import Blobs
    from sbx_jupyter.engine.templates.images.current_connection import CurrentConnection
    from sbx_jupyter.engine.templates.images.oci import Descriptor, Image
    from sbx_jupyter.protocol.templates import Registry as Credentials

_HUB: Final = "registry-1.docker.io"
_CHUNK: Final = 1024 * 1024
_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_REFERENCE: Final = re.compile(
    r"(?:(?P<host>localhost(?::\d+)?|[\w-]+(?:\.[\w-]+)+(?::\d+)?|[\w-]+:\d+|\[[0-9a-f:]+\]:\d+)/)?"
    r"(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?\Z"
)
_LOCAL: Final = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?\Z")


class ImageName(NamedTuple):
    """A parsed image reference, with the defaults of ``docker pull``."""

    host: str
    name: str
    version: str

    def __str__(self) -> str:
        joint = "@" if self.version.startswith("sha256:") else ":"
        return f"{self.host}/{self.name}{joint}{self.version}"


def parse_image_name(text: str) -> ImageName:
    """Parse an image reference; raises ``InvalidArgumentError``."""
    found = _REFERENCE.match(text.strip())
    if found is None:
        raise InvalidArgumentError(f"'{text[:200]}' is no name of a container image")
    host, name = found["host"], found["name"]
    if host in (None, "docker.io", "index.docker.io"):
        host = _HUB
        name = name if "/" in name else f"library/{name}"
    return ImageName(host, name, found["digest"] or found["tag"] or "latest")


class ImagePuller:
    """Pulls one image from one registry."""

    def __init__(
        self,
        name: ImageName,
        credentials: Credentials | None,
        connection: CurrentConnection,
        *,
        owner: str = "",
    ) -> None:
        """``connection`` breaks off the pull from another thread.

        Layers that others than ``owner`` pulled are pulled again: the registry must have them.
        """
        self._name = name
        self._owner = owner
        self._client = _client(name, credentials, connection)
        scheme = "http" if _LOCAL.match(name.host) else "https"
        self._base = f"{scheme}://{name.host}/v2/{name.name}"

    def pull(self, blobs: Blobs, say: Callable[[str], None]) -> Image:
        """Pull the image into ``blobs``.

        Raises ``UnavailableError``, ``NotFoundError``, ``PermissionDeniedError``,
        ``NoSpaceError`` and ``DataLossError``.
        """
        raw = self._document(f"manifests/{self._name.version}", self._name.version)
        if is_index(raw):
            digest = choose(decode(raw, Index, "the index of the image")).digest
            raw = self._document(f"manifests/{check_digest(digest)}", digest)
        manifest = decode(raw, Manifest, "the manifest of the image")
        if len(manifest.layers) > MAX_LAYERS:
            raise InvalidArgumentError("the image has too many layers")
        digest = check_digest(manifest.config.digest)
        config = self._document(f"blobs/{digest}", digest)
        owner = self._owner
        blobs.check_room(
            sum(layer.size for layer in manifest.layers if not blobs.has(layer.digest, owner))
        )
        for number, layer in enumerate(manifest.layers, 1):
            if not blobs.has(layer.digest, owner):
                say(f"Pulling layer {number}/{len(manifest.layers)} {layer.digest[7:19]}")
                self._blob(layer, blobs)
        return assemble(config, [layer.digest for layer in manifest.layers])

    def _document(self, path: str, digest: str) -> bytes:
        from urllib3.exceptions import HTTPError

        with self._get(path, {"Accept": _ACCEPT}) as response:
            try:
                raw = response.raw.read(MAX_JSON + 1, decode_content=True)
            except HTTPError as error:
                raise UnavailableError(
                    f"the registry {self._name.host} broke off: {error}"
                ) from error
        if len(raw) > MAX_JSON:
            raise InvalidArgumentError("the registry gave a document that is too long")
        found = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        if digest.startswith("sha256:") and found != digest:
            raise DataLossError(f"the registry gave {found} for {digest}")
        return raw

    def _blob(self, layer: Descriptor, blobs: Blobs) -> None:
        import requests

        digest = layer.digest
        with self._get(f"blobs/{digest}", {}) as response:
            try:
                chunks = response.iter_content(_CHUNK)
                blobs.put(chunks, digest, layer.size, owner=self._owner)
            except requests.RequestException as error:
                raise UnavailableError(f"the layer {digest} did not arrive: {error}") from error

    def _get(self, path: str, headers: dict[str, str]) -> Any:
        import requests

        try:
            # Unwrapped, to skip the client's retries: they take minutes even for a wrong password.
            # oras annotates its parameters with a bare dict, partially unknown in both lines.
            method = type(self._client).do_request  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            request = inspect.unwrap(method)  # pyright: ignore[reportUnknownArgumentType]
            response = request(self._client, f"{self._base}/{path}", headers=headers, stream=True)
        except requests.RequestException as error:
            raise UnavailableError(f"the registry {self._name.host} failed: {error}") from error
        except ValueError:
            raise PermissionDeniedError(f"the registry refuses access to {self._name}") from None
        except (AttributeError, TypeError) as error:  # oras takes the answer to be one of tokens
            raise UnavailableError(
                f"the registry {self._name.host} asks for a login that cannot be understood"
            ) from error
        if response.status_code == 200:
            return response
        response.close()
        if response.status_code in (401, 403):
            raise PermissionDeniedError(f"the registry refuses access to {self._name}")
        if response.status_code == 404:
            raise NotFoundError(f"the registry does not have {self._name}")
        raise UnavailableError(
            f"the registry {self._name.host} answered with status {response.status_code}"
        )


def _client(
    name: ImageName, credentials: Credentials | None, connection: CurrentConnection
) -> Registry:
    """Make a client with the kind of authentication that the registry asks for."""
    try:
        import requests

        # oras has no type stubs.
        from oras.provider import Registry  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise FailedPreconditionError(
            f"pulling images needs the package oras: pip install oras{see('templates')}"
        ) from error
    from sbx_jupyter.engine.templates.images.registry_session import RegistrySession

    is_local = bool(_LOCAL.match(name.host))
    scheme = "http" if is_local else "https"
    session = RegistrySession(connection, may_use_http=is_local)
    try:
        with session.get(f"{scheme}://{name.host}/v2/", stream=True) as answer:
            challenge = answer.headers.get("Www-Authenticate", "")
    except requests.RequestException as error:
        raise UnavailableError(
            f"the registry {name.host} cannot be reached: {type(error).__name__}"
        ) from error
    login = _login(name, credentials)
    if login is None and challenge.lower().startswith("basic"):
        raise PermissionDeniedError(f"the registry refuses access to {name}: it wants a password")
    backend = "basic" if challenge.lower().startswith("basic") else "token"
    client = Registry(name.host, insecure=is_local, auth_backend=backend)
    untyped: Any = client
    untyped.session = untyped.auth.session = session
    if login is not None:
        untyped.auth.set_basic_auth(*login)
    return client


def _login(name: ImageName, credentials: Credentials | None) -> tuple[str, str] | None:
    if credentials is None:
        return None
    if credentials.type == "registry" and credentials.username and credentials.password:
        return credentials.username, credentials.password
    if credentials.type == "gcp" and credentials.service_account_json:
        return "_json_key", _check_service_account(credentials.service_account_json)
    if credentials.type == "aws":
        key_id, secret = credentials.aws_access_key_id, credentials.aws_secret_access_key
        if key_id and secret and credentials.aws_region:
            return registry_login(name.host, key_id, secret, credentials.aws_region)
    raise InvalidArgumentError("the credentials of the registry are not complete")


def _check_service_account(text: str) -> str:
    """Check the JSON key of a Google service account, which is the password as a whole."""
    found = decode(text.encode(), dict[str, Any], "the JSON of the service account")
    if found.get("type") != "service_account" or not found.get("private_key"):
        raise InvalidArgumentError("the JSON is not the key of a service account")
    return text
