"""Finds out by trying which fence this machine can build, and what a stronger one would need."""

from __future__ import annotations

import enum
import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sbx_jupyter
from sbx_jupyter.errors import IsolationError, see
from sbx_jupyter.isolation import limits as limit_holders
from sbx_jupyter.isolation.ids.blocks import CONTAINER_IDS
from sbx_jupyter.isolation.kernel import users
from sbx_jupyter.isolation.kernel.containers import is_container
from sbx_jupyter.isolation.kernel.hierarchies import Hierarchies, find_hierarchies
from sbx_jupyter.isolation.kernel.users import OWN, SHARED
from sbx_jupyter.isolation.limits import Provided
from sbx_jupyter.isolation.missing import (
    Missing,
    install,
    landlock_works,
    of_older_landlock,
    why_no_landlock,
    why_no_loopback,
    why_no_namespaces,
    why_no_supervision,
    why_shared_ids,
)
from sbx_jupyter.isolation.root import rootfs, stock_plan

if TYPE_CHECKING:
    from sbx_jupyter.isolation.ids.blocks import IdRange

_PROBE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from sbx_jupyter.isolation.probe import main; main(*sys.argv[2:])"
)
_PROBE_TIMEOUT: Final = 60.0
"""Seconds; on an idle machine, a probe takes a fifth of a second."""
_PRETENDED_ABI: Final = "SBX_LANDLOCK_ABI"
"""For tests: the version of Landlock to use, if the kernel's is not older."""

_TOOLS: Final = {
    "bash": "bash",
    "curl": "curl",
    "git": "git",
    "sudo": "sudo",
    "ps": "procps",
    "pgrep": "procps",
    "ss": "iproute2",
    "tput": "ncurses-bin",
    "tar": "tar",
    "gzip": "gzip",
    "realpath": "coreutils",
}
"""The programs that stock templates should contain, and the Debian packages that have them."""
_SUBSTITUTES: Final = {"sudo": "only a stand-in for"}


class Tier(enum.StrEnum):
    """The strength of the fence around sandboxes."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """The isolation that this machine allows, as found at start."""

    tier: str
    """The strongest tier that works here."""
    users: str
    """``root-mapped``, ``subordinate`` or ``virtual``."""
    limits: dict[str, str]
    """Resource to what holds sandboxes to it; the names and their words are in ``limits.py``."""
    freezer: str
    """``cgroup v1``, ``cgroup v2`` or ``signals``."""
    reflink: bool
    missing: list[Missing]
    id_base: int = 0
    """The host id of the root of all sandboxes, for ``root-mapped`` with shared ids."""
    ids: str = SHARED
    """``own``: each sandbox has host ids of its own; ``shared``: all have the same.

    The kernel counts many things for each id of the host.
    """
    landlock_abi: int = 0
    loopback: bool = False
    """Whether sandboxes of the Landlock tier get a loopback interface of their own."""
    full_network: bool = False
    """Whether sandboxes can have the whole network, with ``--network=full``."""
    full_network_missing: list[Missing] = field(default_factory=list[Missing])
    """What is missing for that."""

    provided: Provided = field(default_factory=Provided)

    @property
    def has_machine_root(self) -> bool:
        """Whether root of a sandbox has the id of the machine's root."""
        is_mapped = self.ids == OWN or self.id_base != 0
        return self.users == users.ROOT_MAPPED and not is_mapped

    def to_json(self) -> dict[str, Any]:
        """The report as ``doctor --json`` prints it.

        ``limit_words`` says for each resource whether it is limited, watched or not limited.
        """
        return {**asdict(self), "limit_words": limit_holders.words(self.limits)}


def detect(data_dir: Path, host_ids: IdRange = CONTAINER_IDS) -> IsolationReport:
    """Try what this machine allows, in a process that is thrown away.

    ``host_ids`` are for the sandboxes of an engine of root. Raises ``IsolationError`` when the data
    directory cannot be used at all.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    found = _probe(data_dir, host_ids)
    if (pretended := os.environ.get(_PRETENDED_ABI)) is not None:
        found["landlock_abi"] = min(found["landlock_abi"], int(pretended))
    missing: list[Missing] = []
    if found.get("supervision", True) is not True:
        missing.append(why_no_supervision(found["supervision"]))
        found["landlock_abi"] = 0
    tier = _tier(found, missing)
    kind = _users(found, missing)
    own_ids = tier == Tier.NAMESPACES and found.get("own_ids") is True
    hierarchies = find_hierarchies()
    provided = _provided(hierarchies, found)
    _explain_watched(provided, missing, data_dir, is_btrfs=found.get("btrfs") is True)
    missing += _missing_tools()
    missing_network = _missing_for_full_network(tier, found)
    return IsolationReport(
        tier=tier,
        users=kind if tier == Tier.NAMESPACES else users.VIRTUAL,
        limits=_limits(provided, tier),
        freezer=hierarchies.freezer,
        reflink=found.get("reflink") is True,
        missing=missing,
        id_base=0 if own_ids else found.get("id_base") or 0,
        ids=OWN if own_ids else SHARED,
        landlock_abi=found["landlock_abi"],
        loopback=found.get("loopback") is True,
        full_network=not missing_network,
        full_network_missing=missing_network,
        provided=provided,
    )


def _missing_tools() -> list[Missing]:
    return [
        Missing(
            f"the stock template has {_SUBSTITUTES.get(tool, 'no')} {tool}",
            install(package),
            "templates",
        )
        for tool, package in _TOOLS.items()
        if shutil.which(tool, path=rootfs.PATH) is None
    ]


def of_tier(report: IsolationReport, tier: str) -> IsolationReport:
    """The report for sandboxes in ``tier``, which may be weaker than the strongest."""
    ids = report.ids if tier == Tier.NAMESPACES else SHARED
    return replace(report, limits=_limits(report.provided, tier), ids=ids)


def choose(report: IsolationReport, wanted: str = "auto") -> str:
    """The tier to use for a configured ``wanted``.

    ``none`` is never chosen on its own: it runs code with all that the engine may do, and root of a
    machine that is no container does not get it at all. Raises
    ``IsolationError`` with what is missing when the machine cannot give what is wanted.
    """
    order = [Tier.NAMESPACES.value, Tier.LANDLOCK.value, Tier.NONE.value]
    if wanted == "auto":
        if report.tier == Tier.NONE:
            raise IsolationError(f"this machine cannot fence a sandbox. {_explain(report)}")
        return report.tier
    if wanted not in order:
        raise IsolationError(f"there is no tier {wanted!r}; it is one of {', '.join(order)}")
    if wanted == Tier.NONE and os.getuid() == 0 and not is_container():
        raise IsolationError(
            "the tier 'none' is refused to root of a machine: every program of a sandbox would be "
            f"root here. Run the engine as an ordinary user, or in a container{see('containers')}"
        )
    landlocked = wanted == Tier.LANDLOCK and landlock_works(report.landlock_abi, os.getuid())
    if wanted not in (report.tier, Tier.NONE) and not landlocked:
        raise IsolationError(f"the tier {wanted!r} does not work here. {_explain(report)}")
    return wanted


def check_full_network(report: IsolationReport, tier: str) -> None:
    """Raise ``IsolationError`` where sandboxes of a tier cannot have the whole network."""
    if tier != Tier.NAMESPACES:
        raise IsolationError(f"the whole network needs the tier {Tier.NAMESPACES.value!r}")
    if not report.full_network:
        why = "; ".join(f"{item.what}: {item.remedy}" for item in report.full_network_missing)
        told = f"sandboxes cannot have the whole network here. {why}{see('network')}"
        raise IsolationError(told)


def _missing_for_full_network(tier: str, found: dict[str, Any]) -> list[Missing]:
    if tier != Tier.NAMESPACES:
        remedy = "see what is missing for the tier namespaces"
        return [Missing(f"the tier is {tier}", remedy, "network")]
    missing: list[Missing] = []
    if shutil.which("slirp4netns") is None:
        missing.append(Missing("slirp4netns is not installed", install("slirp4netns"), "network"))
    if found.get("tap") is not True:
        remedy = "sudo modprobe tun && sudo chmod 666 /dev/net/tun (in a container: "
        remedy += "docker run --device /dev/net/tun)"
        what = f"no network interface can be made ({found.get('tap')})"
        missing.append(Missing(what, remedy, "network"))
    if found.get("descriptors") is not True:
        remedy = "allow pidfd_getfd in the container's seccomp profile, with Linux 5.6 or later"
        why = found.get("descriptors")
        what = f"a packet filter cannot be set from outside ({why})"
        missing.append(Missing(what, remedy, "network"))
    return missing


def _explain(report: IsolationReport) -> str:
    return " ".join(
        f"{item.what[:1].upper()}{item.what[1:]}: {item.remedy}{see(item.page)}."
        for item in report.missing
    )


def _probe(data_dir: Path, host_ids: IdRange) -> dict[str, Any]:
    package = str(Path(sbx_jupyter.__file__).parent.parent)
    plan = stock_plan.plan_stock(real_users=False, host_root_mapped=False)
    trees = ":".join(tree.path for tree in plan.trees)
    ids = f"{host_ids.first}-{host_ids.last}"
    probe = ["-I", "-S", "-X", "utf8", "-c", _PROBE, package, str(data_dir), trees, ids]
    try:
        done = subprocess.run(
            [sys.executable, *probe],
            env={"PATH": os.environ.get("PATH", rootfs.PATH)},
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise IsolationError(
            f"the probe of this machine did not end within {_PROBE_TIMEOUT:g} s; it is very busy"
        ) from error
    if done.returncode != 0:
        raise IsolationError(f"the probe of this machine failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _tier(found: dict[str, Any], missing: list[Missing]) -> str:
    failed = [
        name
        for name in (
            "mount_namespace",
            "user_namespace",
            "overlay",
            "tmpfs",
            "proc",
            "devpts",
            "seccomp",
        )
        if found.get(name, True) is not True
    ]
    if not failed and found.get("user_namespace") is True:
        return Tier.NAMESPACES
    missing += [
        why_no_namespaces(name, str(found.get(name, "unknown")))
        for name in failed or ["user_namespace"]
    ]
    missing.append(why_no_landlock(found["landlock_abi"], found["uid"]))
    missing += of_older_landlock(found["landlock_abi"], found["uid"])
    if found.get("loopback", True) is not True:
        missing.append(why_no_loopback(found["loopback"]))
    return Tier.LANDLOCK if landlock_works(found["landlock_abi"], found["uid"]) else Tier.NONE


def _users(found: dict[str, Any], missing: list[Missing]) -> str:
    if found["uid"] == 0:
        if found.get("id_base") == 0:
            missing.append(
                Missing(
                    "files cannot be shown under other ids here "
                    f"({found.get('idmapped', 'no spare ids')}), so the sandboxes' root is the "
                    "machine's root inside their namespaces",
                    "put the data directory and the engine's Python on ext4, XFS or btrfs with "
                    "Linux 5.19 or later, or on tmpfs with Linux 6.3 or later",
                    "threat-model",
                )
            )
        elif found.get("own_ids") is not True:
            missing.append(why_shared_ids(str(found.get("own_ids"))))
        return users.ROOT_MAPPED
    if found.get("subordinate") is True:
        return users.SUBORDINATE
    missing.append(
        Missing(
            f"root and user are one id inside ({found.get('subordinate')})",
            f"{install('uidmap')} && sudo usermod --add-subuids 100000-165535 "
            f"--add-subgids 100000-165535 {users.login_name()}",
            "tiers",
        )
    )
    return users.VIRTUAL


def _provided(hierarchies: Hierarchies, found: dict[str, Any]) -> Provided:
    return Provided(
        memory=hierarchies.provider("memory"),
        cpu=hierarchies.provider("cpu"),
        pids=hierarchies.provider("pids"),
        tcp=hierarchies.tcp_provider,
        disk=limit_holders.BTRFS_QUOTA if found.get("disk_quota") is True else "none",
    )


def _limits(provided: Provided, tier: str) -> dict[str, str]:
    return limit_holders.find_holders(
        provided, namespaces=tier == Tier.NAMESPACES, landlock=tier == Tier.LANDLOCK
    )


def _explain_watched(
    provided: Provided, missing: list[Missing], data_dir: Path, *, is_btrfs: bool
) -> None:
    if "none" in (provided.memory, provided.cpu, provided.pids):
        missing.append(
            Missing(
                "no control group can be made for every limit, so memory is watched, and each "
                "sandbox is bound to as many processors as it may use",
                f"start the engine with: systemd-run{_of_user()} --scope -p Delegate=yes "
                "jupyter sbx engine",
                "limits",
            )
        )
    if provided.disk == "none":
        remedy = "jupyter sbx storage create --size 50G"
        if is_btrfs:
            remedy = f"sudo btrfs quota enable {shlex.quote(str(data_dir))}"
        what = (
            "disk use is watched and not limited: the data directory has no quotas of btrfs, the "
            "only ones that are used"
        )
        missing.append(Missing(what, remedy, "limits"))


def _of_user() -> str:
    return " --user" if os.getuid() else ""
