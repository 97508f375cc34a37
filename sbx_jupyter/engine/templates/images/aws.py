"""Gets passwords for the registries of Amazon ECR; blocking.

The request is signed here: the official package is a hundred megabytes for this one request.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from sbx_jupyter.errors import InvalidArgumentError, PermissionDeniedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SERVICE: Final = "ecr"
_TARGET: Final = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
_TYPE: Final = "application/x-amz-json-1.1"
_BODY: Final = b"{}"
_TIMEOUT: Final = (10, 60)
_MAX_ANSWER: Final = 256 * 1024
_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-\d{1,2}\Z")
_KEY_ID: Final = re.compile(r"\w{16,128}\Z", re.ASCII)
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_ECR", "AWS_ENDPOINT_URL")
"""Variables that set another address of the service, as in the official clients."""


class _Authorization(msgspec.Struct):
    token: str = msgspec.field(name="authorizationToken")
    endpoint: str = msgspec.field(name="proxyEndpoint", default="")


class _Answer(msgspec.Struct):
    data: list[_Authorization] = msgspec.field(name="authorizationData")


class _ErrorAnswer(msgspec.Struct):
    kind: str = msgspec.field(name="__type", default="")
    message: str = ""


def registry_login(host: str, key_id: str, secret: str, region: str) -> tuple[str, str]:
    """Get user and password for the registry at ``host``; valid for some hours.

    Raises ``InvalidArgumentError``, ``PermissionDeniedError`` and ``UnavailableError``.
    """
    if not _REGION.match(region):
        raise InvalidArgumentError(f"'{region[:100]}' is no region of AWS")
    if not _KEY_ID.match(key_id):
        raise InvalidArgumentError("the id of the AWS access key has a wrong form")
    found = _ask(_endpoint(region), key_id, secret, region)
    if not _is_registry_of(host, region, found.endpoint):
        raise InvalidArgumentError(
            f"{host} is no registry of AWS in {region}: its password is not sent there"
        )
    try:
        user, colon, password = base64.b64decode(found.token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = user = password = ""
    if not colon:
        raise UnavailableError("AWS gave a token that cannot be read")
    return user, password


def _ask(url: str, key_id: str, secret: str, region: str) -> _Authorization:
    import requests

    headers = {"Content-Type": _TYPE, "Host": urlsplit(url).netloc, "X-Amz-Target": _TARGET}
    at = dt.datetime.now(dt.UTC)
    headers = signed(headers, urlsplit(url).path or "/", _BODY, key_id, secret, region, at)
    try:
        with requests.post(
            url, data=_BODY, headers=headers, timeout=_TIMEOUT, stream=True, allow_redirects=False
        ) as response:
            raw = response.raw.read(_MAX_ANSWER, decode_content=True)
            status = response.status_code
    except (requests.RequestException, OSError) as error:
        raise UnavailableError(f"AWS cannot be reached: {type(error).__name__}") from error
    if status == 200:
        try:
            return msgspec.json.decode(raw, type=_Answer).data[0]
        except (msgspec.DecodeError, IndexError, UnicodeDecodeError) as error:
            raise UnavailableError("AWS gave an answer that cannot be read") from error
    if 400 <= status < 500:
        raise PermissionDeniedError(f"AWS refuses the access key: {_reason(raw, status)}")
    raise UnavailableError(f"AWS answered with status {status}")


def signed(
    headers: Mapping[str, str],
    path: str,
    body: bytes,
    key_id: str,
    secret: str,
    region: str,
    at: dt.datetime,
) -> dict[str, str]:
    """Add the headers of Signature Version 4 to those of a POST, signing all of them."""
    date = at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{date[:8]}/{region}/{_SERVICE}/aws4_request"
    given = {**headers, "X-Amz-Date": date}
    named = sorted((name.lower(), value.strip()) for name, value in given.items())
    names = ";".join(name for name, _ in named)
    lines = ["POST", path, "", *(f"{name}:{value}" for name, value in named), "", names]
    request = "\n".join([*lines, hashlib.sha256(body).hexdigest()])
    text = "\n".join(
        ["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()]
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}"
    return {
        **given,
        "Authorization": f"{credential}, SignedHeaders={names}, Signature={signature}",
    }


def _endpoint(region: str) -> str:
    for name in _ENDPOINTS:
        if url := os.environ.get(name):
            return url
    end = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://api.ecr.{region}.{end}/"


def _is_registry_of(host: str, region: str, endpoint: str) -> bool:
    """Whether a host is an ECR registry of the region, or the one that the answer names."""
    pattern = rf"\d{{12}}\.dkr[.-]ecr(-fips)?\.{region}\.(amazonaws\.com(\.cn)?|on\.aws)"
    return re.fullmatch(pattern, host) is not None or host == urlsplit(endpoint).netloc


def _reason(raw: bytes, status: int) -> str:
    try:
        found = msgspec.json.decode(raw, type=_ErrorAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"status {status}"
    return f"{found.kind.rpartition('#')[2] or status} {found.message}".strip()[:300]
