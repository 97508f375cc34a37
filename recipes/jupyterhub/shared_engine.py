"""jupyterhub_config.py: all users share one engine of root's, each with a key of their own.

The engine runs by ``recipes/systemd/system.service``, on the machine of the hub and its users'
servers. Its ``/etc/jupyter/jupyter_sbx_config.py`` has the quotas, for example

    c.SbxEngine.port = 49980
    c.SbxEngine.quota = {"sandboxes": 5, "processors": 8, "memory_mb": 8192, "disk_mb": 51200}
"""

import os
import subprocess
from pathlib import Path
from urllib.parse import quote

c = get_config()  # noqa: F821

ADDRESS = os.environ.get("SBX_SHARED_URL", "http://127.0.0.1:49980")
DATA_DIR = os.environ.get("SBX_SHARED_DATA_DIR", "/var/lib/sbx-jupyter")
KEYS = Path(os.environ.get("SBX_SHARED_KEYS", "/var/lib/sbx-jupyter-keys"))
"""A directory of root's, with a file for each user."""


def key_of(user: str) -> str:
    """The user's key of the engine, which is made when they first come."""
    file = KEYS / quote(user, safe="")
    if not file.exists():
        command = ["jupyter-sbx", "keys", "add", "--data-dir", DATA_DIR, "--", user]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        KEYS.mkdir(mode=0o700, exist_ok=True)
        with open(file, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as written:
            written.write(made.stdout)
    return file.read_text().strip()


def give_key(spawner) -> None:
    spawner.environment = {**spawner.environment, "E2B_API_KEY": key_of(spawner.user.name)}


c.Spawner.pre_spawn_hook = give_key
c.Spawner.args = [
    f"--SbxExtension.api_url={ADDRESS}",
    f"--SbxExtension.sandbox_url={ADDRESS}",
    "--SbxExtension.offer_local=False",
]
