"""The engine keeps to its own description of its API, whatever it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

if TYPE_CHECKING:
    from .conftest import EngineProcess, SandboxAccess

EXAMPLES = 4
REAL_CREATION = {"/v2/sandboxes", "/sandboxes"}


def test_every_described_operation_answers_as_described(
    engine: EngineProcess, shared: SandboxAccess
) -> None:
    described = httpx.get(f"{engine.url}/openapi.json", trust_env=False).json()
    schema = schemathesis.openapi.from_dict(described)
    checked = 0

    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.method.upper() == "POST" and operation.path in REAL_CREATION:
            continue  # sandboxes that are made at random would use up the machine
        check_operation(operation, engine, shared)
        checked += 1

    assert checked > 40


def check_operation(operation: Any, engine: EngineProcess, shared: SandboxAccess) -> None:
    is_runtime = "runtime" in (operation.definition.raw.get("tags") or ())
    credentials = shared.headers() if is_runtime else {"X-API-Key": engine.key}

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any) -> None:
        for name in ("E2b-Sandbox-Id", "E2b-Sandbox-Port"):
            case.headers.pop(name, None)
        answer = case.call(base_url=engine.url, headers=credentials, timeout=20)
        case.validate_response(
            answer,
            checks=(
                schemathesis.checks.not_a_server_error,
                schemathesis.specs.openapi.checks.status_code_conformance,
                schemathesis.specs.openapi.checks.content_type_conformance,
                schemathesis.specs.openapi.checks.response_schema_conformance,
            ),
        )

    check()
