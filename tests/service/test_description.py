"""The engine keeps to its own description of its API, whatever it is sent."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.waiting import PATIENCE

from .conftest import create_sandbox

if TYPE_CHECKING:
    from .conftest import EngineProcess, SandboxAccess

EXAMPLES = 6
REAL_CREATION = {"/v2/sandboxes", "/sandboxes"}


@dataclass(slots=True)
class Victim:
    """A sandbox for those who change it; there is always one that runs."""

    api: httpx.Client
    id: str = ""

    def running(self) -> str:
        answer = self.api.get(f"/sandboxes/{self.id or 'none'}")
        if answer.status_code != 200 or answer.json()["state"] != "running":
            if self.id:
                self.api.delete(f"/sandboxes/{self.id}")
            self.id = create_sandbox(self.api, timeout=600).id
        return self.id


@pytest.mark.timeout(300)
def test_every_described_operation_answers_as_described(
    engine: EngineProcess, shared: SandboxAccess, api: httpx.Client
) -> None:
    described = httpx.get(f"{engine.url}/openapi.json", trust_env=False, timeout=PATIENCE).json()
    schema = schemathesis.openapi.from_dict(described)
    victim = Victim(api)
    answered: dict[str, set[int]] = {}

    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result.err()
        operation = result.ok()
        if operation.method.upper() == "POST" and operation.path in REAL_CREATION:
            continue  # sandboxes that are made at random would use up the machine
        statuses = check_operation(operation, engine, shared, victim)
        answered[f"{operation.method.upper()} {operation.path}"] = statuses
    api.delete(f"/sandboxes/{victim.running()}")

    assert len(answered) > 40
    # Refusals alone would say little about the answers.
    of_sandboxes = {name: found for name, found in answered.items() if "/sandboxes/{" in name}
    fruitless = [name for name, found in of_sandboxes.items() if min(found) >= 300]
    assert len(of_sandboxes) > 10
    assert len(fruitless) <= len(of_sandboxes) / 3, fruitless


def check_operation(
    operation: Any, engine: EngineProcess, shared: SandboxAccess, victim: Victim
) -> set[int]:
    """Try an operation; the statuses that it answered with."""
    is_runtime = "runtime" in (operation.definition.raw.get("tags") or ())
    credentials = shared.headers() if is_runtime else {"X-API-Key": engine.key}
    statuses: set[int] = set()
    turn = itertools.count()

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
    )
    def check(case: Any) -> None:
        for name in ("E2b-Sandbox-Id", "E2b-Sandbox-Port"):
            case.headers.pop(name, None)
        if "/sandboxes/{sandboxID}" in case.path and next(turn) % 3:
            aim(case, victim)
        answer = case.call(base_url=engine.url, headers=credentials, timeout=20)
        statuses.add(answer.status_code)
        # The runtime answers what it does not do with 501 (interface 3.2), which is no failure.
        unfailing = () if is_runtime and answer.status_code == 501 else (not_a_server_error,)
        case.validate_response(
            answer,
            checks=(
                *unfailing,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ),
        )

    check()
    return statuses


def aim(case: Any, victim: Victim) -> None:
    """Let a case be about a sandbox that exists, and not make a hundred of it."""
    case.path_parameters["sandboxID"] = victim.running()
    if isinstance(case.body, dict):
        for name, sensible in (("count", 1), ("timeout", 300)):
            if name in case.body:
                case.body[name] = sensible
