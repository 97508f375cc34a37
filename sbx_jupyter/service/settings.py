"""The settings of the engine, as traits, and what they mean for the parts of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traitlets import (
    Bool,
    Dict,
    Enum,
    Float,
    HasTraits,
    Int,
    List,
    TraitError,
    Unicode,
    default,
    validate,
)

from sbx_jupyter.protocol.locations import connection_file_of, default_data_dir
from sbx_jupyter.service.separation import Separation

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import EngineConfig
    from sbx_jupyter.engine.sandboxes.quotas import Quota
    from sbx_jupyter.service.context import ServiceSettings

DEFAULT_IDLE_TIMEOUT: Final = 600.0
"""Seconds, for engines that a client started."""


class EngineSettings(HasTraits):
    """Each trait is a setting of ``c.SbxEngine`` in configuration files."""

    ip = Unicode("127.0.0.1", help="The address to listen on.").tag(config=True)
    port = Int(
        0,
        min=0,
        max=65535,
        help="The port to listen on. 0 uses the port of the last start if it is free, else any.",
    ).tag(config=True)
    data_dir = Unicode(
        help="The directory for the engine's database, sandboxes, templates and logs."
    ).tag(config=True)
    connection_file = Unicode(
        help="Another file for address and API key, written when the engine is ready; engine.json"
        " in the data directory is always written."
    ).tag(config=True)
    isolation = Unicode(
        "auto",
        help="The isolation tier: namespaces, landlock or none; auto uses the strongest of the"
        " first two that works on this machine.",
    ).tag(config=True)
    domain = Unicode(
        "",
        help="The domain of sandbox host names that clients get; for engines behind a TLS"
        " terminator.",
    ).tag(config=True)
    allow_origin = Unicode("*", help="The Access-Control-Allow-Origin of answers.").tag(config=True)
    pool_size = Int(
        4, min=0, max=64, help="How many sandboxes to start ahead of requests for them."
    ).tag(config=True)
    warm_interpreter = Bool(
        True,
        help="Start a code interpreter in each sandbox of code-interpreter-v1 before the first"
        " request for it.",
    ).tag(config=True)
    max_sandboxes = Int(100, min=1, help="How many sandboxes may run at once.").tag(config=True)
    max_timeout = Int(86400, min=1, help="The longest life of a sandbox in seconds.").tag(
        config=True
    )
    max_connections_per_sandbox = Int(
        512, min=1, help="How many requests to the ports of one sandbox may run at once."
    ).tag(config=True)
    default_memory_mb = Int(1024, min=64, help="Memory of a sandbox in MiB.").tag(config=True)
    default_cpu_count = Int(2, min=1, help="Processors of a sandbox.").tag(config=True)
    default_disk_mb = Int(10240, min=16, help="Disk space of a sandbox in MiB.").tag(config=True)
    quota = Dict(
        value_trait=Int(),
        key_trait=Unicode(),
        help="What one owner may have at once: `sandboxes`, `processors`, `memory_mb`, `disk_mb`;"
        " what is missing or 0 has no limit. The engine's own key has no quota.",
    ).tag(config=True)
    quotas = Dict(
        value_trait=Dict(value_trait=Int(), key_trait=Unicode()),
        key_trait=Unicode(),
        help="The quotas of owners for whom `quota` does not apply, by their names.",
    ).tag(config=True)
    volume_size_mb = Int(
        10240, min=0, help="Disk space of a volume in MiB, when it is made; 0 means no limit."
    ).tag(config=True)
    cpu_weight = Int(
        100,
        min=1,
        max=10000,
        help="The weight of all sandboxes together when the machine has too little processor time,"
        " where control groups share it out. Other groups, such as a service of systemd, have 100.",
    ).tag(config=True)
    default_processes = Int(1024, min=16, help="Processes in a sandbox.").tag(config=True)
    default_open_files = Int(
        65536, min=64, help="Open files per process; see docs/architecture.md."
    ).tag(config=True)
    network = Enum(
        ("proxy", "full"),
        "proxy",
        help="The network of sandboxes: proxy gives them a proxy for HTTP and SOCKS, full gives"
        " them TCP and UDP as well (needs slirp4netns).",
    ).tag(config=True)
    host_ids = Unicode(
        "524288-1879048191",
        help="The ids of the host for sandboxes, first to last, with an engine of root: each has a"
        " block of 65536 to itself. Blocks with ids of users, of groups or of /etc/subuid and"
        " /etc/subgid are left out.",
    ).tag(config=True)
    egress_exceptions = List(
        Unicode(),
        help="Non-public networks (CIDR) that sandboxes may reach, such as a package mirror's.",
    ).tag(config=True)
    max_builds = Int(
        20, min=1, help="How many template builds of one owner may run or wait in the queue."
    ).tag(config=True)
    parallel_builds = Int(
        2, min=1, help="How many template builds run at once, shared out among owners."
    ).tag(config=True)
    build_step_timeout = Float(
        3600.0, min=1, help="Seconds that one step of a template build may take."
    ).tag(config=True)
    max_cached_steps = Int(500, min=0, help="How many build steps are kept in the cache.").tag(
        config=True
    )
    max_step_cache_gb = Float(
        20.0, min=0, help="Disk space for layers that only the cache of build steps uses, in GiB."
    ).tag(config=True)
    metrics_interval = Float(
        5.0, min=0.5, help="Seconds between two readings of a sandbox's metrics."
    ).tag(config=True)
    on_demand = Bool(False, help="Whether a client started this engine because it needed one.").tag(
        config=True
    )
    idle_timeout = Float(
        min=0,
        help="Seconds without a sandbox, a client and a build after which the engine ends; 0:"
        " never. Default: 600 if a client started it, else 0.",
    ).tag(config=True)
    user_id = Int(
        0,
        min=-1,
        help="The user and group id that serves clients when root starts the engine: -1 for one"
        " that is derived from the data directory, 0 to stay root. With another than root,"
        " sandboxes cannot be shown more directories of the machine.",
    ).tag(config=True)
    log_requests = Bool(True, help="Write a line for each request to the log.").tag(config=True)
    audit = Bool(
        True,
        help="Write who did what to which sandbox to audit.jsonl, and the connections of sandboxes"
        " to egress.jsonl, beside the log.",
    ).tag(config=True)
    features = List(
        Unicode(), help="Feature names that GET /engine/info lists, besides the engine's own."
    ).tag(config=True)

    @default("idle_timeout")
    def _default_idle_timeout(self) -> float:
        return DEFAULT_IDLE_TIMEOUT if self.on_demand else 0.0

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(default_data_dir())

    @default("connection_file")
    def _default_connection_file(self) -> str:
        return str(connection_file_of(self.data_path))

    @validate("isolation")
    def _check_isolation(self, proposal: Any) -> str:
        choices = ("auto", "namespaces", "landlock", "none")
        if proposal["value"] not in choices:
            raise TraitError(f"isolation must be one of {', '.join(choices)}")
        return proposal["value"]

    @validate("host_ids")
    def _check_host_ids(self, proposal: Any) -> str:
        from sbx_jupyter.isolation.ids.blocks import IdRange

        try:
            IdRange.parse(proposal["value"])
        except ValueError as error:
            raise TraitError(f"host_ids: {error}") from error
        return proposal["value"]

    @validate("quota")
    def _check_quota(self, proposal: Any) -> dict[str, int]:
        _parse_quota(proposal["value"], "quota")
        return proposal["value"]

    @validate("quotas")
    def _check_quotas(self, proposal: Any) -> dict[str, dict[str, int]]:
        for owner, quota in proposal["value"].items():
            _parse_quota(quota, f"quotas of '{owner}'")
        return proposal["value"]

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir).expanduser().absolute()

    @property
    def connection_path(self) -> Path:
        return Path(self.connection_file).expanduser().absolute()

    def separation(self) -> Separation:
        """The settings that decide whether the engine serves as a user of its own."""
        return Separation(
            data_dir=self.data_path,
            connection_file=self.connection_path,
            isolation=self.isolation,
            network=self.network,
            user_id=self.user_id,
            cpu_weight=self.cpu_weight,
            host_ids=self.host_ids,
        )

    def service_settings(self) -> ServiceSettings:
        """The settings of the HTTP service."""
        from sbx_jupyter.service.context import ServiceSettings

        return ServiceSettings(
            version=_version(),
            domain=self.domain or None,
            allow_origin=self.allow_origin,
            max_connections_per_sandbox=self.max_connections_per_sandbox,
            features=tuple(self.features),
        )

    def engine_config(self) -> EngineConfig:
        """The settings of the engine behind it."""
        from sbx_jupyter.engine.context import EngineConfig
        from sbx_jupyter.engine.sandboxes.quotas import Quotas
        from sbx_jupyter.isolation.fence_spec import Limits
        from sbx_jupyter.isolation.ids.blocks import IdRange

        return EngineConfig(
            data_dir=self.data_path,
            isolation=self.isolation,
            pool_size=self.pool_size,
            max_sandboxes=self.max_sandboxes,
            max_timeout=self.max_timeout,
            default_limits=Limits(
                memory_mb=self.default_memory_mb,
                cpu_count=self.default_cpu_count,
                processes=self.default_processes,
                disk_mb=self.default_disk_mb,
                open_files=self.default_open_files,
            ),
            cpu_weight=self.cpu_weight,
            volume_size_mb=self.volume_size_mb,
            quotas=Quotas(
                _parse_quota(self.quota, "quota"),
                {owner: _parse_quota(given, owner) for owner, given in self.quotas.items()},
                volume_size_mb=self.volume_size_mb,
            ),
            warm_interpreter=self.warm_interpreter,
            metrics_interval=self.metrics_interval,
            domain=self.domain or None,
            network=self.network,
            host_ids=IdRange.parse(self.host_ids),
            egress_exceptions=tuple(self.egress_exceptions),
            max_builds=self.max_builds,
            parallel_builds=self.parallel_builds,
            build_step_timeout=self.build_step_timeout,
            max_cached_steps=self.max_cached_steps,
            max_step_cache_bytes=int(self.max_step_cache_gb * 1024**3),
        )


def _parse_quota(given: dict[str, int], where: str) -> Quota:
    from sbx_jupyter.engine.sandboxes.quotas import parse_quota
    from sbx_jupyter.errors import InvalidArgumentError

    try:
        return parse_quota(given, where)
    except InvalidArgumentError as error:
        raise TraitError(error.message) from None


def _version() -> str:
    from sbx_jupyter import __version__

    return __version__
