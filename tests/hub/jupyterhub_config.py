"""The hub of the tests: a recipe as it is, and two users with ids of their own."""

import json
import os
from pathlib import Path

from jupyterhub.spawner import SimpleLocalProcessSpawner

c = get_config()  # noqa: F821
SETTINGS = json.loads(os.environ["SBX_HUB_TESTS"])
FOLDER = Path(SETTINGS["folder"])


class OrdinaryUser(SimpleLocalProcessSpawner):
    """Runs a server as a user without privileges, who needs no account on this machine."""

    def make_preexec_fn(self, name):
        uid, home = SETTINGS["users"][name], self.home_dir

        def become():
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.chdir(home)

        return become if os.geteuid() == 0 else super().make_preexec_fn(name)


load_subconfig(SETTINGS["recipe"])  # noqa: F821

c.JupyterHub.bind_url = SETTINGS["url"]
c.JupyterHub.hub_port = SETTINGS["hub_port"]
c.JupyterHub.cookie_secret_file = str(FOLDER / "cookie_secret")
c.JupyterHub.db_url = f"sqlite:///{FOLDER}/hub.sqlite"
c.JupyterHub.pid_file = str(FOLDER / "hub.pid")
c.JupyterHub.last_activity_interval = 2
c.ConfigurableHTTPProxy.command = [SETTINGS["proxy"]]
c.ConfigurableHTTPProxy.api_url = SETTINGS["proxy_api"]
c.ConfigurableHTTPProxy.auth_token = SETTINGS["token"]
c.ConfigurableHTTPProxy.pid_file = str(FOLDER / "proxy.pid")

c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = SETTINGS["token"]
c.Authenticator.allowed_users = set(SETTINGS["users"])
c.JupyterHub.services = [{"name": "tests", "api_token": SETTINGS["token"]}]
c.JupyterHub.load_roles = [
    {"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens"]}
]

if "SBX_HUB_COMMAND" in os.environ:  # the image of the users' servers has all that they need
    c.JupyterHub.spawner_class = SimpleLocalProcessSpawner
    c.Spawner.cmd = json.loads(os.environ["SBX_HUB_COMMAND"])
else:
    c.JupyterHub.spawner_class = OrdinaryUser
    c.Spawner.cmd = [SETTINGS["python"], "-B", "-m", "jupyterhub.singleuser"]
    c.Spawner.args = [
        *c.Spawner.args,
        f"--LabApp.app_dir={SETTINGS['app_dir']}",
        "--LabApp.expose_app_in_browser=True",
    ]
c.SimpleLocalProcessSpawner.home_dir_template = str(FOLDER / "home" / "{username}")
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.Spawner.environment = {"JUPYTERHUB_ACTIVITY_INTERVAL": "2", **SETTINGS["environment"]}
