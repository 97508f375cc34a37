"""The names of the package: all there, and none loaded before it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import sbx_jupyter

CHECKOUT = Path(__file__).resolve().parents[2]


def loaded_with(module: str, *names: str) -> list[str]:
    """Which of these modules are there once a fresh interpreter has imported another."""
    finished = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*(sys.modules.keys() & {names}))"],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.split()


@pytest.mark.parametrize("name", sbx_jupyter.__all__)
def test_every_public_name_is_there(name):
    assert getattr(sbx_jupyter, name).__name__ == name


def test_type_checkers_are_told_that_the_package_has_types():
    assert resources.files(sbx_jupyter).joinpath("py.typed").is_file()


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_with("sbx_jupyter", "httpx", "tornado", "msgspec", "ipywidgets") == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Sandbag'"):
        _ = sbx_jupyter.Sandbag


def test_looking_for_the_engine_loads_no_http_client():
    assert loaded_with("sbx_jupyter.client.connection.bundled", "httpx", "asyncio", "tornado") == []
