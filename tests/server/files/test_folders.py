"""Folders of a sandbox: pages of them, all of one as a zip, and uploads in pieces."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from sbx_jupyter.client.processes.commands import Commands

MAKE = r"""
mkdir -p /tmp/big/sub /tmp/big/empty && cd /tmp/big
for n in $(seq 1 40); do head -c $n /dev/zero > file$n; done
echo hidden > .hidden; echo inner > sub/inner; ln -s /etc/passwd link; ln -s / out
mkfifo pipe; echo a > "$(printf 'a\nb\\c')"; echo x > "$(printf 'not-utf8-\377')"
mkdir -p /tmp/pieces; printf one, > /tmp/pieces/1; printf two > /tmp/pieces/2
"""


@pytest.mark.parametrize("jp_base_url", ["/user/a%40b/", "/jupyter/x/"])
async def test_a_folder_is_paged_and_downloaded(sandbox, api, jp_serverapp):
    app = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    commands = Commands(await app.deployments.default.runtime(sandbox))
    assert (await commands.run(MAKE)).exit_code == 0

    async def get(route, **params):
        params = {"path": "/tmp/big", **params}
        return await api("GET", "sandboxes", sandbox, route, params=params)

    _, page = await get("listing", limit="4", sort="size", order="desc", filter="FILE")
    assert [each["name"] for each in page["entries"]] == ["file40", "file39", "file38", "file37"]
    assert (page["total"], page["matching"]) == (48, 40)
    _, page = await get("listing", offset="1", limit="2")
    assert [each["name"] for each in page["entries"]] == ["out", "sub"]
    for wrong in ({"sort": "x"}, {"limit": "-1"}, {"limit": "2001"}, {"offset": "9" * 30}):
        status, body = await get("listing", **wrong)
        assert (status, body["code"]) == (400, "invalid_argument")
    assert (await get("listing", path="/tmp/none"))[0] == 404

    status, raw = await get("archive")
    assert status == 200
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        assert archive.read("big/sub/inner") == b"inner\n"
        assert archive.read("big/file40") == bytes(40)
        left_out = archive.read("big/LEFT-OUT.txt").decode()
    assert {"big/", "big/sub/", "big/empty/", "big/.hidden", "big/a_b_c"} <= names
    assert not {"big/link", "big/out/", "big/pipe"} & names
    for name in ("link", "out", "pipe", "not-utf8"):
        assert f"\n{name}" in left_out
    _, raw = await get("archive", format="tar.gz")
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        assert set(archive.getnames()) == {name.rstrip("/") for name in names}
    for wrong, expected in (
        ({"path": "/tmp/none"}, 404),
        ({"path": "/tmp/big/file1"}, 400),
        ({"format": "rar"}, 400),
    ):
        assert (await get("archive", **wrong))[0] == expected

    pieces = {"sources": ["/tmp/pieces/1", "/tmp/pieces/2"], "destination": "/tmp/whole"}
    join = ("POST", "sandboxes", sandbox, "files", "compose")
    assert (await api(*join, body={**pieces, "size": 8}))[0] == 409
    assert (await api(*join, body={**pieces, "sources": []}))[0] == 400
    status, body = await api(*join, body={**pieces, "size": 7})
    assert (status, body["path"]) == (200, "/tmp/whole")
    assert (await get("files", path="/tmp/whole"))[1] == b"one,two"
    assert (await api(*join, body=pieces))[0] == 404
