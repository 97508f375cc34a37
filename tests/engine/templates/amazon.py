"""A stand-in for the part of Amazon that gives out passwords of registries.

It checks each request as Amazon says that it does: the signature is computed anew, from what came
over the wire. Nothing here is shared with what signs.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import hmac
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
REGION = "eu-central-1"
TARGET = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/ecr/aws4_request, "
    r"SignedHeaders=(?P<names>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    def mac(key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    return mac(mac(mac(mac(b"AWS4" + secret.encode(), day), region), service), "aws4_request")


def check(method: str, path: str, headers: Message, body: bytes) -> str | None:
    """Why a request is refused."""
    found = _AUTHORIZATION.fullmatch(headers["Authorization"] or "")
    if found is None:
        return "IncompleteSignatureException"
    if found["id"] != KEY_ID:
        return "UnrecognizedClientException"
    names = found["names"].split(";")
    if names != sorted(names) or not {"host", "x-amz-date", "x-amz-target"} <= set(names):
        return "InvalidSignatureException"
    date = headers["X-Amz-Date"]
    age = dt.datetime.now(dt.UTC) - dt.datetime.strptime(date, "%Y%m%dT%H%M%S%z")
    if abs(age) > dt.timedelta(minutes=5) or not date.startswith(found["day"]):
        return "InvalidSignatureException"
    canonical = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names)
    payload = hashlib.sha256(body).hexdigest()
    request = f"{method}\n{path}\n\n{canonical}\n{found['names']}\n{payload}"
    scope = f"{found['day']}/{found['region']}/ecr/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = signing_key(SECRET, found["day"], found["region"], "ecr")
    right = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(right, found["signature"]) or found["region"] != REGION:
        return "InvalidSignatureException"
    return None


class Amazon:
    """What the service gives: the password of one registry."""

    def __init__(self) -> None:
        self.url = ""
        self.password = "a-password-for-some-hours"
        self.registry = ""
        """The host that the answer names."""

        self.seen: list[str] = []
        """What each request was found to be; empty for a right one."""


@contextlib.contextmanager
def serve_amazon() -> Iterator[Amazon]:
    amazon = Amazon()

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            wrong = check("POST", self.path, self.headers, body)
            if wrong is None and (self.headers["X-Amz-Target"], json.loads(body)) != (TARGET, {}):
                wrong = "InvalidParameterException"
            amazon.seen.append(wrong or "")
            if wrong is None:
                token = base64.b64encode(f"AWS:{amazon.password}".encode()).decode()
                known = {"authorizationToken": token, "proxyEndpoint": f"https://{amazon.registry}"}
                answer = {"authorizationData": [known]}
            else:
                answer = {"__type": f"com.amazon.coral.service#{wrong}", "message": "refused"}
            raw = json.dumps(answer).encode()
            self.send_response(200 if wrong is None else 400)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        amazon.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield amazon
        finally:
            server.shutdown()
            thread.join()
