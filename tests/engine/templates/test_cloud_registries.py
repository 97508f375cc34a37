"""Registries of clouds: a real registry behind stand-ins for what their clouds add to it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import httpx
import pytest
from e2b import Template
from e2b.exceptions import BuildException

from tests.engine_process import engine_process

from .amazon import KEY_ID, REGION, SECRET, Amazon, serve_amazon, signing_key
from .conftest import Api, run
from .images import BUSYBOX, LOOK, TinyImage
from .registries import htpasswd, push, serve_registry, serve_tokens, silly_auth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not BUSYBOX.exists(), reason="needs the Debian package busybox-static"
)
ACCOUNT = json.dumps(
    {
        "type": "service_account",
        "project_id": "tiny",
        "private_key": "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n",
        "client_email": "puller@tiny.iam.gserviceaccount.com",
    }
)


@pytest.fixture(scope="module")
def amazon() -> Iterator[Amazon]:
    with serve_amazon() as running:
        yield running


@pytest.fixture(scope="module")
def aws_api(amazon: Amazon) -> Iterator[Api]:
    """An engine that takes the stand-in for Amazon."""
    environment = {"AWS_ENDPOINT_URL_ECR": amazon.url}
    with engine_process("cloud", "--pool-size=0", environment=environment) as engine:
        found = engine.connection
        with httpx.Client(
            base_url=found.url, headers={"X-API-Key": found.api_key}, trust_env=False, timeout=30
        ) as client:
            yield Api(client)


@pytest.fixture
def aws_registry(amazon: Amazon, tmp_path: Path) -> Iterator[str]:
    with serve_registry(tmp_path) as (host, _):
        push(host, TinyImage())
    with serve_registry(tmp_path, htpasswd(tmp_path, "AWS", amazon.password)) as (host, _):
        amazon.registry = host
        amazon.seen.clear()
        yield host


def test_the_stand_in_derives_keys_as_the_documentation_of_aws_shows() -> None:
    key = signing_key(SECRET, "20120215", "us-east-1", "iam")
    assert key.hex() == "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"


def aws(**changes: str) -> dict[str, str]:
    return {
        "type": "aws", "awsAccessKeyId": KEY_ID, "awsSecretAccessKey": SECRET,
        "awsRegion": REGION, **changes,
    }  # fmt: skip


def test_a_key_of_aws_opens_its_registry(
    aws_api: Api, aws_registry: str, amazon: Amazon, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = f"{aws_registry}/tiny:v1"
    found = aws_api.build("from-aws", run(LOOK), fromImage=image, fromImageRegistry=aws())
    assert found["status"] == "ready", found
    assert amazon.seen == [""]
    monkeypatch.setenv("E2B_API_URL", str(aws_api.client.base_url))
    monkeypatch.setenv("E2B_API_KEY", aws_api.client.headers["X-API-Key"])
    by_client = Template().from_aws_registry(image, KEY_ID, SECRET, REGION).run_cmd("true")
    Template.build(by_client, "from-aws-by-client")
    assert amazon.seen == ["", ""]


@pytest.mark.parametrize(
    ("changes", "text", "seen"),
    [
        ({"awsSecretAccessKey": "wrong"}, "AWS refuses the access key: InvalidSig", "InvalidSig"),
        ({"awsAccessKeyId": "AKIA" + "X" * 16}, "UnrecognizedClient", "Unrecognized"),
        ({"awsRegion": "us-east-1"}, "AWS refuses the access key: InvalidSig", "InvalidSig"),
        ({"awsRegion": "evil.example/#-1"}, "is no region of AWS", None),
        ({"awsAccessKeyId": "a\nb"}, "has a wrong form", None),
        ({"awsSecretAccessKey": ""}, "not complete", None),
    ],
)
def test_a_key_that_aws_does_not_know_is_refused_in_its_words(
    aws_api: Api, aws_registry: str, amazon: Amazon, changes: dict, text: str, seen: str | None
) -> None:
    found = aws_api.build(
        "refused-by-aws", fromImage=f"{aws_registry}/tiny:v1", fromImageRegistry=aws(**changes)
    )
    assert (found["status"], found["reason"]["step"]) == ("error", "base")
    assert text in found["reason"]["message"]
    assert SECRET not in json.dumps(found)
    assert [item[: len(seen or "")] for item in amazon.seen] == ([] if seen is None else [seen])


def test_the_password_of_aws_is_not_sent_elsewhere(
    aws_api: Api, aws_registry: str, amazon: Amazon
) -> None:
    amazon.registry = "012345678901.dkr.ecr.eu-central-1.amazonaws.com"
    found = aws_api.build("elsewhere", fromImage=f"{aws_registry}/tiny:v1", fromImageRegistry=aws())
    assert "is no registry of AWS in eu-central-1" in found["reason"]["message"]


def test_a_service_account_of_google_opens_its_registry(
    api: Api, tmp_path: Path, e2b_variables: None
) -> None:
    with serve_registry(tmp_path) as (host, _):
        push(host, TinyImage())
    right = "Basic " + base64.b64encode(f"_json_key:{ACCOUNT}".encode()).decode()

    def give(path: str, headers: Message) -> str | None:
        return "token" if headers["Authorization"] == right else None

    with serve_tokens(give) as realm, serve_registry(tmp_path, silly_auth(realm)) as (host, _):
        image = f"{host}/tiny:v1"
        Template.build(Template().from_gcp_registry(image, json.loads(ACCOUNT)), "from-google")
        other = ACCOUNT.replace("puller", "another")
        with pytest.raises(BuildException, match="refuses access"):
            Template.build(Template().from_gcp_registry(image, json.loads(other)), "from-google")
        for text in ("{}", "no json", '{"type": "service_account"}'):
            credentials = {"type": "gcp", "serviceAccountJson": text}
            found = api.build("odd-account", fromImage=image, fromImageRegistry=credentials)
            assert "the JSON" in found["reason"]["message"]
