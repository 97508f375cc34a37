"""Who serves clients of an engine of root, and what that process can still do."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.engine.state.manifests import Manifests
from sbx_jupyter.errors import FailedPreconditionError
from sbx_jupyter.isolation.kernel import call_numbers
from sbx_jupyter.isolation.privileged import account, filters
from sbx_jupyter.isolation.privileges import privileges_below
from sbx_jupyter.isolation.resource_use import open_files
from sbx_jupyter.protocol import access
from sbx_jupyter.server.deployments.session_key import SessionKey
from tests.engine_process import CHECKOUT, EngineProcess, engine_process
from tests.isolation.privileged.conftest import ENGINE_USER, helper_of
from tests.waiting import PATIENCE, until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to give up")
REFUSED = {
    "read /etc/shadow", "read a neighbour", "mount", "make a namespace", "become root",
    "run a program", "trace init", "signal init", "move the layers", "replace the cages",
    "list the cages", "make a layer", "plant in quarantine", "raw socket", "packet socket",
    "unpack a link", "unpack a file", "remove /etc", "volume above", "read through a volume",
    "end init", "connect the machine",
}  # fmt: skip
OF_ROOT = ("test.log", "engine.lock", "start.lock")


def outer_filters() -> int:
    """How many system call filters there are around these tests already."""
    return int(status_of(os.getpid()).get("Seccomp_filters", "0"))


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t") for line in lines if ":\t" in line)


@root_only
def test_the_process_that_parses_http_has_no_privileges():
    with engine_process("separation", "--SbxEngine.user_id=-1") as engine:
        status, helper = status_of(engine.pid), status_of(helper_of(engine.data_dir))
        shown = privileges_below(engine.pid)
        said = httpx.get(
            f"{engine.url}/engine/info",
            headers={access.API_KEY_HEADER: engine.key},
            timeout=PATIENCE,
        )
        doctor = subprocess.run(
            [sys.executable, "-m", "sbx_jupyter.cli.main", "doctor", "--data-dir", engine.data_dir],
            env=os.environ | {"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True,
            check=True, timeout=50,
        )  # fmt: skip
        owner = str(account.id_of(engine.data_dir))

    assert [each.role for each in shown[:4]] == ["engine", "supervisor", "helper", "zygote"]
    filters_of = [each.filters for each in shown[:4]]
    assert filters_of[0] == filters_of[1] == filters_of[2] == filters_of[3] > outer_filters()
    assert said.json()["isolation"]["served_by"] == "separate"
    assert "clients: served by a user without privileges" in doctor.stdout
    assert status["Uid"].split() == [owner] * 4
    assert status["Gid"].split() == [owner] * 4
    assert status["Groups"].strip() == ""
    assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert helper["Uid"].split() == ["0"] * 4
    assert helper["Seccomp"] == "2"


@root_only
def test_the_engine_has_mounts_of_its_own_though_nothing_bars_its_way():
    program = (
        "import os; from pathlib import Path; from sbx_jupyter.isolation.privileged import view\n"
        "before = os.readlink('/proc/self/ns/mnt')\n"
        "view.open_way([Path('/usr/lib')])\n"
        "print(before != os.readlink('/proc/self/ns/mnt'), len(os.listdir('/usr/lib')) > 1)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True,
        check=True, timeout=50,
    )  # fmt: skip
    assert told.stdout.split() == ["True", "True"]


@pytest.mark.long
@root_only
def test_an_engine_without_isolation_keeps_root_and_says_so():
    options = ("--SbxEngine.user_id=-1", "--isolation=none", "--pool-size=0")
    engine = EngineProcess(Path(tempfile.mkdtemp(prefix="sbx-none-")), options=options)
    try:
        engine.launch()
        until(lambda: "clients are served as root" in engine.log.read_text())
    finally:
        engine.stop()
        shutil.rmtree(engine.data_dir)


@pytest.mark.long
@root_only
def test_a_key_that_root_registers_is_read_by_an_engine_of_a_user():
    with engine_process("session", "--SbxEngine.user_id=-1", "--pool-size=0") as engine:
        keys = SessionKey(engine.data_dir), SessionKey(engine.data_dir, "somebody")
        for key in keys:
            asked = httpx.Client(
                base_url=engine.url, headers={access.API_KEY_HEADER: key.value}, timeout=PATIENCE
            )
            with asked:
                assert asked.get("/sandboxes").status_code == 401
                key.register()
                assert asked.get("/sandboxes").status_code == 200
                key.revoke()
                assert asked.get("/sandboxes").status_code == 401


def test_a_key_is_not_registered_through_a_link_of_the_engines_user(data_dir: Path):
    outside = data_dir.parent / "outside"
    outside.mkdir()
    (data_dir / "session-keys").symlink_to(outside)

    with pytest.raises(OSError, match="Not a directory"):
        SessionKey(data_dir).register()

    assert os.listdir(outside) == []


def test_records_of_networks_that_the_engines_user_had_are_not_believed(data_dir: Path):
    record = data_dir / "networks" / "i00000000000000000000"
    record.write_text("{}")
    for path in (record, record.parent):
        os.chown(path, ENGINE_USER, ENGINE_USER)

    account.take_over(data_dir, ENGINE_USER, is_done=True)

    assert (record.parent.lstat().st_uid, os.listdir(record.parent)) == (0, [])


@pytest.mark.parametrize("missing", ["chown", "setuid"])
def test_root_with_too_few_capabilities_stays_root(missing: str):
    if os.geteuid() != 0:
        pytest.skip("only root has privileges to give up")
    program = (
        "from pathlib import Path; from sbx_jupyter.isolation.privileged import account; "
        "print(account.why_not_in(Path('/tmp'), 1))"
    )
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-{missing}", "--inh-caps=-all", sys.executable, "-c", program],
        cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert done.stdout.strip() == f"root lacks the capability {missing} here"


def test_who_takes_the_place_of_the_engine_gets_no_further(data_dir: Path):
    neighbour = data_dir.parent / "neighbour"
    other = DataDir(neighbour)
    other.open()
    (neighbour / "engine.db").write_text("secret")
    account.take_over(neighbour, ENGINE_USER + 1)
    other.close()

    done = subprocess.run(
        [sys.executable, "-m", "tests.isolation.privileged.compromised", str(data_dir),
         str(neighbour), str(ENGINE_USER)],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["CapEff"] == "0000000000000000"
    assert found["make a volume"] == "done"
    assert {name for name in REFUSED if found[name].startswith("done")} == set()


def test_a_directory_of_root_is_taken_over_once(data_dir: Path):
    folder = data_dir.parent / "former"
    former = DataDir(folder)
    former.open()
    former.close()
    outside = data_dir.parent / "outside"
    outside.write_text("x")
    (folder / "engine.db").write_text("rows")
    (folder / "log").mkdir()
    (folder / "log" / "engine.log").write_text("lines")
    (folder / "log" / "link").symlink_to(outside)
    os.link(outside, folder / "log" / "second name")
    (folder / "test.log").write_text("output")
    (folder / "start.lock").touch()

    account.take_over(folder, ENGINE_USER)
    account.take_over(folder, ENGINE_USER)

    owners = {
        name: os.lstat(folder / name).st_uid
        for name in ("engine.db", "log", "log/engine.log", "layers", *OF_ROOT)
    }
    assert owners == {
        "engine.db": ENGINE_USER, "log": ENGINE_USER, "log/engine.log": ENGINE_USER, "layers": 0,
    } | dict.fromkeys(OF_ROOT, 0)  # fmt: skip
    assert outside.stat().st_uid == 0
    assert folder.stat().st_mode & 0o7777 == 0o1770


def test_root_takes_back_what_an_engine_of_a_user_left_and_follows_none_of_its_links(
    data_dir: Path,
):
    folder = data_dir.parent / "returned"
    former = DataDir(folder)
    former.open()
    account.take_over(folder, ENGINE_USER)
    layer = f"layers/{uuid.UUID(int=1)}"
    (folder / layer).mkdir()
    (folder / "manifests-apart" / layer.replace("/", ":")).write_text("manifest")
    outside = data_dir.parent / "of root"
    outside.write_text("x")
    (folder / "log").mkdir()
    (folder / "log" / "engine.log").symlink_to(outside)
    os.chown(folder / "log", ENGINE_USER, ENGINE_USER)
    former.close()

    with contextlib.closing(DataDir(folder)) as returned:
        returned.open()
        Manifests.open(returned)

    assert {os.lstat(path).st_uid for path in folder.rglob("*")} == {0}
    assert not (folder / "log" / "engine.log").is_symlink()
    assert (folder / f"{layer}.manifest").read_text() == "manifest"
    assert folder.stat().st_mode & 0o7777 == 0o700


def test_a_second_engine_of_root_is_refused_and_leaves_the_directory_as_it_is(data_dir: Path):
    with pytest.raises(FailedPreconditionError, match="in use"):
        DataDir(data_dir).open()

    assert data_dir.stat().st_mode & 0o7777 == 0o1770
    assert (data_dir / "run").stat().st_uid == ENGINE_USER


@pytest.mark.long
@root_only
def test_what_no_row_names_is_set_aside_by_an_engine_of_a_user():
    layer = str(uuid.UUID(int=1))
    with engine_process("aside", "--SbxEngine.user_id=-1", "--pool-size=0") as engine:
        engine.stop()
        (engine.data_dir / "layers" / layer).mkdir()
        (engine.data_dir / "manifests-apart" / f"layers:{layer}").write_text("damaged")
        owner = account.id_of(engine.data_dir)
        os.chown(engine.data_dir / "manifests-apart" / f"layers:{layer}", owner, owner)

        engine.start()

        client = httpx.Client(
            base_url=engine.url, headers={access.API_KEY_HEADER: engine.key}, timeout=PATIENCE
        )
        with client:
            listed = client.get("/engine/disk?maxAge=0").json()["quarantine"]
            folder = Path(next(each["path"] for each in listed if each["kind"] == "layer")).parent
            assert {(each["kind"], each["reason"]) for each in listed} == {
                ("layer", "its checksum is wrong"), ("record", "its checksum is wrong"),
            }  # fmt: skip
            assert (folder.parent.name, folder.stat().st_uid) == ("quarantine", 0)
            answer = client.post("/engine/prune", json={"kinds": ["quarantine"]}).json()
            assert answer["pruned"][0]["count"] == 2
            assert client.get("/engine/disk?maxAge=0").json().get("quarantine", []) == []
        assert not folder.exists()


def test_an_id_of_somebody_is_not_taken():
    assert account.why_not(0) is not None
    assert account.id_of(Path("/a")) == account.id_of(Path("/a")) != account.id_of(Path("/b"))


@pytest.mark.parametrize("machine", sorted(call_numbers.NUMBERS))
def test_the_filters_can_be_built_for_each_machine(machine: str):
    known = call_numbers.NUMBERS[machine]
    assert {"ptrace", "execve"} <= known.keys()
    assert len(filters.build_for_engine(machine)) % 8 == 0
    assert len(filters.build_for_helper(machine)) % 8 == 0


def test_the_helper_may_call_what_the_count_of_open_files_needs():
    """A refused ``kcmp`` would count the descriptors of each thread again."""
    text = "".join(path.read_text() for path in Path(open_files.__file__).parent.glob("*.py"))
    called = set(re.findall(r'syscalls\.call\("(\w+)"', text))

    assert "kcmp" in called
    assert called.isdisjoint(filters.NEVER_OF_HELPER)


@pytest.mark.long
@root_only
def test_sandboxes_pass_between_engines_of_root_and_of_a_user_of_their_own():
    with engine_process("passing", "--pool-size=0") as engine:
        made = [use_sandbox(engine)]
        for user_id, ending in (("-1", signal.SIGKILL), ("-1", signal.SIGHUP), ("0", None)):
            if ending is not signal.SIGKILL:
                engine.stop(signal.SIGHUP)
            else:
                engine.kill()
            engine.options = ("--pool-size=0", f"--SbxEngine.user_id={user_id}")
            engine.start()
            made.append(use_sandbox(engine))
            config = ConnectionConfig.from_connection_file(engine.connection)
            for sandbox_id in made:
                found = Sandbox.connect(sandbox_id, config=config)
                assert found.files.read("/home/user/kept") == "kept"
        for sandbox_id in made:
            Sandbox.connect(sandbox_id, config=config).kill()


def use_sandbox(engine: EngineProcess) -> str:
    config = ConnectionConfig.from_connection_file(engine.connection)
    sandbox = Sandbox.create(timeout=300, config=config)
    sandbox.files.write("/home/user/kept", "kept")
    assert sandbox.commands.run("cat kept").stdout == "kept"
    return sandbox.sandbox_id
