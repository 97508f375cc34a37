"""The addresses outside that the pages link to: their form, and whether they answer.

Where an address cannot be reached, since there is no network or the machine keeps it closed,
nothing is known about it, and the report says so in place of "broken".
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINK = re.compile(r"\]\((https?:[^)\s]*)\)|<(https?:[^>\s]*)>")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}")
RESERVED = ("example", "example.com", "example.org", "example.net", "test", "invalid", "localhost")
SECONDS = 20


def links_of(pages: list[Path]) -> dict[str, list[str]]:
    """Each address that a page links to, with the names of the pages."""
    found: dict[str, list[str]] = {}
    for page in pages:
        for link in LINK.finditer(CODE.sub("", page.read_text())):
            names = found.setdefault(link[1] or link[2], [])
            if page.name not in names:
                names.append(page.name)
    return found


def fault_of(address: str) -> str:
    """What is wrong with the form of an address; empty if nothing is."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme != "https":
        return "not https"
    if not HOST.fullmatch(host):
        return "no public name of a host"
    if any(host == name or host.endswith(f".{name}") for name in RESERVED):
        return "a name that is kept for examples"
    if parts.username is not None or port is not None:
        return "a user or a port"
    if not re.fullmatch(r"[\w\-.~:/?#@!$&'*+,;=%]*[\w/=]", address, re.ASCII):
        return "characters that belong to the text around it"
    return ""


def look_up(addresses: list[str]) -> Iterator[tuple[str, str]]:
    """Each address with ``answers``, ``broken: ...`` or ``not reached: ...``."""
    with httpx.Client(timeout=SECONDS, follow_redirects=True) as client:
        for address in addresses:
            try:
                with client.stream("GET", address) as answer:
                    status = answer.status_code
            except httpx.HTTPError as error:
                yield address, f"not reached: {error}"
            else:
                yield address, "answers" if status < 400 else f"broken: {status}"


def report(pages: list[Path]) -> int:
    """Print each address and what is known about it; 1 if one is malformed or broken."""
    links = links_of(pages)
    faults = {address: fault for address in links if (fault := fault_of(address))}
    results = faults | dict(look_up([address for address in links if address not in faults]))
    for address, result in sorted(results.items()):
        print(f"{address} ({', '.join(links[address])}): {result}")
    unknown = sum(result.startswith("not reached") for result in results.values())
    broken = [address for address in results if address in faults or "broken" in results[address]]
    print(f"{len(links)} addresses: {len(broken)} wrong, {unknown} not reached, so not looked up")
    if unknown:
        print("Run it again where there is a network.", file=sys.stderr)
    return int(bool(broken))
