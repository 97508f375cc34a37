"""No request to the platform API makes an engine fail, hang or change what it refuses to change."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from sbx_jupyter.service.platform import operation_spec
from sbx_jupyter.service.server import PLATFORM_ROUTES
from tests.engine_process import engine_for_clients

EXAMPLES = settings(
    max_examples=int(os.environ.get("SBX_EXAMPLES", "5")),
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
)
ROUTES = [route for route in PLATFORM_ROUTES if route[0] != "/engine/events"]
"""All but the one whose answer has no end."""

SEGMENT = "([^/]+)"
FILE = {"path": "/file"}

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "BREW")
REFUSED_FOR_NOW = {501, 503, 507}
EXISTING = ["SANDBOX", "VOLUME", "TEMPLATE", "BUILD"]
"""Segments of a path that stand for what there is."""

NAMES = ["base", "none", "..", "%00", "é", "x" * 300, "a:b"]
NUMBERS = [0, 1, -1, 1.5, 1e300, 2**31, 2**63, 2**64, 10**400, "7", "x"]
TEXTS = ["", "a\0b", "x" * 300, "../x", "é\udcff", "2026-01-01T00:00:00Z", "base", "10.0.0.0/33"]


@dataclass
class Platform:
    """A real engine, and one of each thing that a request can be about."""

    client: httpx.Client
    ids: dict[str, str] = field(default_factory=dict)
    token: str = ""
    """Opens the content of the volume."""

    def state(self) -> list[str]:
        """What requests that are refused must not change, and what no other work changes."""
        content = f"/volumecontent/{self.ids['VOLUME']}"
        whole = {"path": "/", "depth": "3"}
        return [
            self.client.get("/volumes").text,
            self.client.get("/secrets").text,
            self.client.get(f"{content}/dir", params=whole, headers=self.bearer).text,
            self.client.get(f"{content}/file", params=FILE, headers=self.bearer).text,
        ]

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def mend(self) -> None:
        """Make again what a request removed."""
        if self.client.get(f"/sandboxes/{self.ids.get('SANDBOX', 'none')}").status_code != 200:
            made = self._make("/v2/sandboxes", {"templateID": "base", "timeout": 3600})
            self.ids["SANDBOX"] = made["sandboxID"]
        if self.client.get(f"/volumes/{self.ids.get('VOLUME', 'none')}").status_code != 200:
            made = self._make("/volumes", {"name": os.urandom(5).hex()})
            self.ids["VOLUME"], self.token = made["volumeID"], made["token"]
            self.client.put(
                f"/volumecontent/{made['volumeID']}/file",
                params=FILE,
                content=b"content",
                headers=self.bearer,
            ).raise_for_status()
        if self.client.get(f"/templates/{self.ids.get('TEMPLATE', 'none')}").status_code != 200:
            made = self._make("/v3/templates", {"name": os.urandom(5).hex()})
            self.ids["TEMPLATE"], self.ids["BUILD"] = made["templateID"], made["buildID"]

    def remove_others(self) -> None:
        """Remove the sandboxes that requests made."""
        for item in self.client.get("/v2/sandboxes", params={"state": "running,paused"}).json():
            if item["sandboxID"] != self.ids["SANDBOX"]:
                self.client.delete(f"/sandboxes/{item['sandboxID']}")

    def _make(self, path: str, body: Any) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    """An engine of its own: requests remove what others need."""
    with engine_for_clients("any-input", "--pool-size=0") as engine:
        with httpx.Client(
            base_url=engine.url, headers={"X-API-Key": engine.key}, trust_env=False, timeout=20
        ) as client:
            yield Platform(client)
        log = engine.log.read_text()
        assert "Traceback" not in log, log


numbers = st.sampled_from(NUMBERS)
texts = st.sampled_from(TEXTS) | st.text(max_size=5)
odd = st.none() | st.booleans() | numbers | texts | st.just([]) | st.just([{}]) | st.just({"a": {}})


def of_kind(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Values of a type of a body, and values of other types where a fault is likely."""
    if name == "fromImage":
        return st.sampled_from(["127.0.0.1:1/x", "a b", "", 1])  # no other registry is asked
    match kind:
        case inspect.StructType():
            known = {
                field.encode_name: of_kind(field.type, field.encode_name) for field in kind.fields
            }
            return st.fixed_dictionaries({}, optional=known) | odd
        case inspect.UnionType():
            return st.one_of([of_kind(one, name) for one in kind.types])
        case inspect.ListType():
            return st.lists(of_kind(kind.item_type), max_size=2)
        case inspect.DictType():
            return st.dictionaries(texts.map(printable), of_kind(kind.value_type), max_size=2)
        case inspect.EnumType():
            return st.sampled_from([one.value for one in kind.cls]) | odd
        case inspect.LiteralType():
            return st.sampled_from(kind.values) | odd
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType() | inspect.FloatType():
            return numbers
        case _:
            return texts | st.just("base") | odd


def printable(text: str) -> str:
    """A text that can be part of an address."""
    return text.encode("utf-8", "replace").decode()


def bodies_of(handler: Any) -> st.SearchStrategy[bytes]:
    kinds = [
        inspect.type_info(found.body)
        for verb in VERBS
        if (found := getattr(getattr(handler, verb.lower(), None), operation_spec.ATTRIBUTE, None))
        if found.body is not None and not isinstance(found.body, str)
    ]
    messages = st.one_of([of_kind(kind) for kind in kinds] or [odd])
    return messages.map(lambda message: json.dumps(message).encode()) | st.binary(max_size=20)


def queries_of(handler: Any) -> st.SearchStrategy[dict[str, str]]:
    names = {
        parameter.name
        for verb in VERBS
        if (found := getattr(getattr(handler, verb.lower(), None), operation_spec.ATTRIBUTE, None))
        for parameter in found.query
    }
    values = st.sampled_from(["/file", "/", "1", "-1", "true", "%", ""]) | (texts | numbers).map(
        lambda value: printable(str(value)[:400])
    )
    return st.fixed_dictionaries({}, optional=dict.fromkeys(sorted(names | {"x"}), values))


headers = st.fixed_dictionaries(
    {},
    optional={
        "Content-Type": st.sampled_from(["application/json", "text/plain", "multipart/form-data"]),
        "Content-Encoding": st.sampled_from(["gzip", "br"]),
        "Idempotency-Key": st.sampled_from(["a", "x" * 300]),
        "Range": st.sampled_from(["bytes=0-", "bytes=,"]),
    },
)


@pytest.mark.parametrize(("pattern", "handler"), ROUTES)
def test_no_request_makes_a_route_of_the_platform_fail(
    platform: Platform, pattern: str, handler: Any
) -> None:
    segments = pattern.count(SEGMENT)
    served = [verb for verb in VERBS if verb.lower() in vars(handler)]

    @given(
        verb=st.sampled_from([*served * 3, "GET", "BREW"]),
        names=st.tuples(*[st.sampled_from([*EXISTING, *NAMES]) for _ in range(segments)]),
        query=queries_of(handler),
        given_headers=headers,
        body=bodies_of(handler),
    )
    @EXAMPLES
    def check(
        verb: str,
        names: tuple[str, ...],
        query: dict[str, str],
        given_headers: dict[str, str],
        body: bytes,
    ) -> None:
        path = pattern.replace("\\.", ".")
        for name in names:
            path = path.replace(SEGMENT, platform.ids.get(name, name), 1)
        if pattern.startswith("/volumecontent/"):
            given_headers = given_headers | platform.bearer
        keeps = pattern.startswith(("/volume", "/secrets"))
        before = platform.state() if keeps else []

        answer = platform.client.request(
            verb, path, params=query, headers=given_headers, content=body
        )

        assert answer.status_code < 500 or answer.status_code in REFUSED_FOR_NOW, answer.text
        if keeps and answer.status_code >= 400:
            assert platform.state() == before
        elif verb != "GET":
            platform.mend()

    platform.mend()
    check()
    platform.remove_others()
