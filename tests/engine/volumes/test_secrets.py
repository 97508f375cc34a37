"""Secrets are write-only and encrypted at rest (interface 1.7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.engine.state.secrets import Secrets
from sbx_jupyter.engine.state.store import Store
from sbx_jupyter.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from sbx_jupyter.protocol.secrets import NewSecret, SecretUpdate


@pytest.fixture
def secrets(store: Store, tmp_path: Path) -> Secrets:
    return Secrets(store, tmp_path)


async def test_a_secret_is_found_by_id_and_by_name(secrets: Secrets) -> None:
    made = await secrets.create(NewSecret(name="API_Key", value="v1", metadata={"team": "blue"}))

    assert made.name == "api_key"
    assert made.secret_id.startswith("sec_")
    assert secrets.get("API_KEY") == secrets.get(made.secret_id) == made
    assert secrets.reveal("API_key") == "v1"


async def test_a_new_value_is_a_new_version(secrets: Secrets) -> None:
    await secrets.create(NewSecret(name="k", value="v1", metadata={"a": 1}))

    kept = await secrets.update("k", SecretUpdate(value="v2"))
    replaced = await secrets.update("k", SecretUpdate(value="v3", metadata={}))

    assert (kept.current_version, kept.metadata) == (2, {"a": 1})
    assert (replaced.current_version, replaced.metadata) == (3, {})
    assert secrets.reveal("k") == "v3"


async def test_a_removed_secret_is_gone(secrets: Secrets) -> None:
    await secrets.create(NewSecret(name="k", value="v"))
    await secrets.remove("k")

    assert secrets.reveal("k") is None
    with pytest.raises(NotFoundError):
        secrets.get("k")
    with pytest.raises(NotFoundError):
        await secrets.remove("k")


async def test_values_are_not_in_the_store_nor_in_a_repr(
    secrets: Secrets, store: Store, tmp_path: Path
) -> None:
    request = NewSecret(name="k", value="hunter2-hunter2")
    await secrets.create(request)

    stored = b"".join(path.read_bytes() for path in tmp_path.glob("engine.db*"))
    assert b"hunter2" not in stored
    assert "hunter2" not in repr(request)
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600


async def test_secrets_survive_a_restart(secrets: Secrets, store: Store, tmp_path: Path) -> None:
    await secrets.create(NewSecret(name="k", value="v"))

    assert Secrets(store, tmp_path).reveal("k") == "v"


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "ä"])
async def test_bad_names_are_refused(secrets: Secrets, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="name"):
        await secrets.create(NewSecret(name=name, value="v"))


async def test_a_name_is_given_once(secrets: Secrets) -> None:
    await secrets.create(NewSecret(name="k", value="v"))

    with pytest.raises(AlreadyExistsError, match="already exists"):
        await secrets.create(NewSecret(name="K", value="v"))


@pytest.mark.parametrize(
    "metadata",
    [
        {str(number): "" for number in range(33)},
        {"k" * 129: ""},
        {"k": "v" * 1025},
        {"k": "ä" * 513},
        {"k": ["v" * 1021]},
        {str(number): "v" * 1023 for number in range(8)} | {"k": ""},
    ],
)
async def test_metadata_is_bounded(secrets: Secrets, metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="metadata"):
        await secrets.create(NewSecret(name="k", value="v", metadata=metadata))


@pytest.mark.parametrize(
    "metadata",
    [
        {"k" * 128: "v" * 1024},
        {"k": '"' * 1024},
        {"k": "ä" * 512},
        {str(number): "v" * 1023 for number in range(8)},
    ],
)
async def test_metadata_may_be_as_large_as_its_limits(
    secrets: Secrets, metadata: dict[str, Any]
) -> None:
    made = await secrets.create(NewSecret(name="k", value="v", metadata=metadata))

    assert made.metadata == metadata
