"""The routes below ``sbx/api`` of a Jupyter server, and what serves each."""

from __future__ import annotations

from sbx_jupyter.server.copies.copies_handler import CopiesHandler
from sbx_jupyter.server.description.openapi import DescriptionHandler
from sbx_jupyter.server.events import EventsHandler
from sbx_jupyter.server.files.archive import ArchiveHandler
from sbx_jupyter.server.files.compose import ComposeHandler
from sbx_jupyter.server.files.content import FilesHandler
from sbx_jupyter.server.files.listing_handler import ListingHandler
from sbx_jupyter.server.help import HelpHandler, HelpPageHandler, HelpPictureHandler
from sbx_jupyter.server.kernels.kernel_routes import (
    DrawingHandler,
    KernelSandboxHandler,
    KernelsHandler,
)
from sbx_jupyter.server.kernels.variant_routes import VariantHandler
from sbx_jupyter.server.observations import DiffHandler, EarlierFileHandler, LogsHandler
from sbx_jupyter.server.processes import PortsHandler, ProcessesHandler, SignalHandler
from sbx_jupyter.server.runtime_proxy import MetricsHandler, RpcHandler
from sbx_jupyter.server.sandboxes import (
    ConnectHandler,
    ConnectionsHandler,
    InfoHandler,
    MetricsHistoryHandler,
    PauseHandler,
    SandboxesHandler,
    SandboxHandler,
    TimeoutHandler,
)
from sbx_jupyter.server.storage.attachments import (
    SecretHandler,
    SecretsHandler,
    VolumeHandler,
    VolumesHandler,
)
from sbx_jupyter.server.storage.builds import BuildHandler, BuildLogHandler
from sbx_jupyter.server.storage.snapshots import (
    ForkHandler,
    OperationHandler,
    OperationsHandler,
    SnapshotHandler,
)
from sbx_jupyter.server.storage.templates import (
    SnapshotsHandler,
    TemplateHandler,
    TemplatesHandler,
)
from sbx_jupyter.server.storage.volume_content import VolumeDirHandler, VolumeFileHandler
from sbx_jupyter.server.terminals import (
    TerminalHandler,
    TerminalsHandler,
    TerminalSocket,
)
from sbx_jupyter.server.usage import UsageHandler
from sbx_jupyter.server.watch import WatchSocket

_API = r"sbx/api"
_SANDBOXES = rf"{_API}/sandboxes"
_SANDBOX = rf"{_SANDBOXES}/(?P<sandbox_id>[^/]+)"

HANDLERS = [
    (rf"{_API}/info", InfoHandler),
    (rf"{_API}/openapi\.json", DescriptionHandler),
    (rf"{_API}/help", HelpHandler),
    (rf"{_API}/help/(?P<name>[A-Za-z0-9-]{{1,64}})", HelpPageHandler),
    (rf"{_API}/help/pictures/(?P<name>[A-Za-z0-9.-]{{1,64}})", HelpPictureHandler),
    (rf"{_API}/connections", ConnectionsHandler),
    (rf"{_API}/events", EventsHandler),
    (rf"{_API}/copies", CopiesHandler),
    (rf"{_API}/kernels", KernelsHandler),
    (rf"{_API}/kernels/(?P<kernel_id>[A-Za-z0-9-]{{1,64}})/drawing", DrawingHandler),
    (rf"{_API}/kernels/(?P<kernel_id>[A-Za-z0-9-]{{1,64}})/sandbox", KernelSandboxHandler),
    (rf"{_API}/kernelspecs/(?P<name>[A-Za-z0-9._-]{{1,100}})", VariantHandler),
    (_SANDBOXES, SandboxesHandler),
    (_SANDBOX, SandboxHandler),
    (rf"{_SANDBOX}/timeout", TimeoutHandler),
    (rf"{_SANDBOX}/pause", PauseHandler),
    (rf"{_SANDBOX}/connect", ConnectHandler),
    (rf"{_SANDBOX}/snapshots", SnapshotHandler),
    (rf"{_SANDBOX}/fork", ForkHandler),
    (rf"{_SANDBOX}/operations", OperationsHandler),
    (rf"{_SANDBOX}/operations/(?P<operation_id>[A-Za-z0-9_-]{{1,64}})", OperationHandler),
    (rf"{_API}/metrics", UsageHandler),
    (rf"{_API}/templates", TemplatesHandler),
    (rf"{_API}/templates/(?P<template_id>[^/]+)", TemplateHandler),
    (rf"{_API}/templates/(?P<template_id>[^/]+)/builds/(?P<build_id>[^/]+)", BuildHandler),
    (
        rf"{_API}/templates/(?P<template_id>[^/]+)/builds/(?P<build_id>[^/]+)/logs",
        BuildLogHandler,
    ),
    (rf"{_API}/snapshots", SnapshotsHandler),
    (rf"{_API}/volumes", VolumesHandler),
    (rf"{_API}/volumes/(?P<volume_id>[^/]+)", VolumeHandler),
    (rf"{_API}/volumes/(?P<volume_id>[^/]+)/dir", VolumeDirHandler),
    (rf"{_API}/volumes/(?P<volume_id>[^/]+)/files", VolumeFileHandler),
    (rf"{_API}/secrets", SecretsHandler),
    (rf"{_API}/secrets/(?P<name>[^/]+)", SecretHandler),
    (rf"{_SANDBOX}/logs", LogsHandler),
    (rf"{_SANDBOX}/diff", DiffHandler),
    (rf"{_SANDBOX}/diff/before", EarlierFileHandler),
    (rf"{_SANDBOX}/processes", ProcessesHandler),
    (rf"{_SANDBOX}/processes/(?P<pid>[0-9]{{1,10}})/signal", SignalHandler),
    (rf"{_SANDBOX}/ports", PortsHandler),
    (rf"{_SANDBOX}/metrics", MetricsHandler),
    (rf"{_SANDBOX}/metrics/history", MetricsHistoryHandler),
    (rf"{_SANDBOX}/rpc/(?P<service>[A-Za-z.]+)/(?P<method>[A-Za-z]+)", RpcHandler),
    (rf"{_SANDBOX}/files", FilesHandler),
    (rf"{_SANDBOX}/files/compose", ComposeHandler),
    (rf"{_SANDBOX}/listing", ListingHandler),
    (rf"{_SANDBOX}/archive", ArchiveHandler),
    (rf"{_SANDBOX}/watch", WatchSocket),
    (rf"{_SANDBOX}/terminals", TerminalsHandler),
    (rf"{_SANDBOX}/terminals/(?P<pid>[0-9]{{1,10}})", TerminalHandler),
    (rf"{_SANDBOX}/terminal", TerminalSocket),
]
