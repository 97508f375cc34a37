"""Jupyter finds the extension without a command to run."""

from __future__ import annotations

import json

import sbx_jupyter
from sbx_jupyter.server.extension import SbxExtension
from tests.engine_process import CHECKOUT

CONFIG = CHECKOUT / "sbx_jupyter/jupyter_config/jupyter_server_config.d/sbx_jupyter.json"


def test_the_configuration_enables_the_package():
    extensions = json.loads(CONFIG.read_text())["ServerApp"]["jpserver_extensions"]

    assert extensions == {sbx_jupyter.__name__: True}


def test_the_package_names_its_extension():
    [point] = sbx_jupyter._jupyter_server_extension_points()

    assert point["app"] is SbxExtension
    assert SbxExtension.name == "sbx_jupyter"


def test_every_setting_says_what_it_does():
    settings = SbxExtension.class_own_traits(config=True)

    assert {"api_url", "api_key", "data_dir", "auto_start", "default_template"} <= settings.keys()
    assert all(trait.help.endswith(".") for trait in settings.values())


def test_the_key_is_read_from_the_environment_and_never_shown(monkeypatch):
    monkeypatch.setenv("E2B_API_KEY", "e2b_" + "5" * 40)
    extension = SbxExtension()

    assert extension.api_key == "e2b_" + "5" * 40
    assert "5555" not in repr(extension)
