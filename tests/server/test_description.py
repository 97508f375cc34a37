"""The description of the routes names what they take and answer, and clients made from it fit."""

from __future__ import annotations

import hashlib
from typing import Final

import pytest

from sbx_jupyter.server.description.__main__ import text
from tests.engine_process import CHECKOUT
from tests.server.conformity import description

ELSEWHERE: Final = {
    "post /copies",  # copies/test_copies.py
    "get /events",  # test_events.py
    "post /kernels",  # test_kernels.py
    "post /kernels/{kernel_id}/drawing",
    "post /kernels/{kernel_id}/sandbox",
    "post /kernelspecs/{name}",  # test_kernel_variants.py
    "delete /sandboxes/{sandbox_id}/operations/{operation_id}",
    "post /sandboxes/{sandbox_id}/fork",  # test_sandboxes.py
    "post /templates",  # storage/test_templates.py
    "get /templates/{template_id}/builds/{build_id}",
    "get /templates/{template_id}/builds/{build_id}/logs",
    "delete /templates/{template_id}/builds/{build_id}",
    "get /sandboxes/{sandbox_id}/terminals/{pid}",  # test_terminals.py
    "patch /sandboxes/{sandbox_id}/terminals/{pid}",
    "delete /sandboxes/{sandbox_id}/terminals/{pid}",
    "get /sandboxes/{sandbox_id}/terminal",
    "get /sandboxes/{sandbox_id}/watch",  # test_watch.py
    "post /sandboxes/{sandbox_id}/processes/{pid}/signal",  # test_observations.py
    "post /sandboxes/{sandbox_id}/rpc/process.Process/SendSignal",
}
"""Operations that other tests of this folder call; the fixture checks their answers, too."""


def test_the_types_of_the_front_end_are_made_from_this_description():
    made = (CHECKOUT / "labextension/src/protocol/api.ts").read_text()
    head, _, types = made.partition("\n\n")
    digests = dict(line.removeprefix("// ").split() for line in head.splitlines()[1:])

    renewed = "run `make api` after a change of the routes"
    assert digests["description"] == hashlib.sha256(text().encode()).hexdigest(), renewed
    assert digests["types"] == hashlib.sha256(types.encode()).hexdigest(), renewed


@pytest.mark.timeout(120)
async def test_every_route_answers_as_described(sandbox, api, conformity):
    here = f"sandboxes/{sandbox}"
    rpc = f"{here}/rpc/filesystem.Filesystem"

    async def ask(method, route, /, status=200, body=None, **params):
        answered, found = await api(method, *route.split("/"), body=body, params=params)
        assert answered == status, (method, route, found)
        return found

    await ask("GET", "info")
    await ask("GET", "openapi.json")
    default = (await ask("GET", "connections"))["default"]
    await ask("PATCH", "connections", body={"default": default})
    await ask("GET", "kernels")
    await ask("GET", "kernelspecs/python3")
    await ask("GET", "help")
    await ask("GET", "help/storage")
    await ask("GET", "help/pictures/panel-light.png")

    await ask("GET", "sandboxes")
    await ask("GET", here, connection=default)
    await ask("PATCH", here, body={"name": "described"})
    await ask("POST", f"{here}/timeout", 204, body={"timeout": 100})
    await ask("GET", f"{here}/operations")
    await ask("GET", f"{here}/metrics")
    await ask("GET", f"{here}/metrics/history", start=0, end=1 << 40)
    await ask("GET", "metrics", sandboxes=sandbox)
    await ask("GET", f"{here}/logs", limit=5)
    await ask("GET", f"{here}/processes")
    await ask("POST", f"{here}/rpc/process.Process/List", body={})
    await ask("GET", f"{here}/ports")
    await ask("GET", f"{here}/terminals")

    await ask("POST", f"{rpc}/MakeDir", body={"path": "/home/user/d"})
    await ask("POST", f"{here}/files", body=b"one", path="/home/user/d/one")
    await ask("GET", f"{here}/files", path="/home/user/d/one")
    joined = {"sources": ["/home/user/d/one"], "destination": "/home/user/d/all", "size": 3}
    await ask("POST", f"{here}/files/compose", body=joined)
    move = {"source": "/home/user/d/all", "destination": "/home/user/d/moved"}
    await ask("POST", f"{rpc}/Move", body=move)
    await ask("POST", f"{rpc}/Stat", body={"path": "/home/user/d/moved"})
    await ask("POST", f"{rpc}/ListDir", body={"path": "/home/user/d", "depth": 1})
    await ask(
        "GET",
        f"{here}/listing",
        path="/home/user/d",
        offset=0,
        limit=9,
        sort="size",
        order="desc",
        filter="m",
        hidden="false",
    )
    await ask("GET", f"{here}/archive", path="/home/user/d", format="tar")
    await ask("POST", f"{rpc}/Remove", body={"path": "/home/user/d"})
    await ask("POST", f"{here}/files", body=b"mine", path="/etc/hostname")
    await ask("GET", f"{here}/diff")
    await ask("GET", f"{here}/diff/before", path="/etc/hostname")

    made = (await ask("POST", f"{here}/snapshots", 201, body={"name": "described"}))["snapshotID"]
    template = made.partition(":")[0].rpartition("/")[2]
    await ask("GET", "snapshots")
    await ask("GET", "templates")
    await ask("GET", f"templates/{template}")
    await ask("PATCH", f"templates/{template}", body={"name": "described-again"})
    await ask("DELETE", "templates/described-again", 204, dependants="true")

    volume = (
        f"volumes/{(await ask('POST', 'volumes', 201, body={'name': 'described'}))['volumeID']}"
    )
    await ask("GET", "volumes")
    await ask("POST", f"{volume}/dir", 201, path="/d")
    await ask("POST", f"{volume}/files", body=b"x", path="/d/x")
    await ask("GET", f"{volume}/files", path="/d/x")
    await ask("GET", f"{volume}/dir", path="/d")
    await ask("DELETE", f"{volume}/files", 204, path="/d/x")
    await ask("DELETE", volume, 204)

    await ask("POST", "secrets", 201, body={"name": "DESCRIBED", "value": "v1"})
    await ask("GET", "secrets")
    await ask("POST", "secrets/DESCRIBED", body={"value": "v2"})
    await ask("DELETE", "secrets/DESCRIBED", 204)

    await ask("POST", f"{here}/pause", 204)
    await ask("POST", f"{here}/connect", body={"timeout": 100})
    await ask("DELETE", here, 204)

    every = {f"{v} {path}" for path, item in description()["paths"].items() for v in item}
    assert every - conformity.answered == ELSEWHERE
