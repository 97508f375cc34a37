"""Checks the build requests of clients before anything is made (interface 1.5, T1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.engine.sandboxes.admission import check_memory
from sbx_jupyter.engine.templates.references import (
    DEFAULT_TAG,
    NAMESPACE,
    Reference,
    parse_reference,
    parse_tag,
)
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.dockerfile.steps import parse_dockerfile
from sbx_jupyter.protocol.templates import (
    DEFAULT_CPU_COUNT,
    DEFAULT_MEMORY_MB,
    MAX_NAME,
    BuildStart,
)

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import EngineConfig
    from sbx_jupyter.protocol.templates import DockerfileRequest, TemplateRequest

_MAX_CPUS: Final = 32
_MAX_DISK: Final = 1 << 24
_MAX_TAGS: Final = 100


class BuildParameters(NamedTuple):
    """A checked build request."""

    reference: Reference | None
    """The name without a tag; ``None`` for a template without a name."""

    tags: tuple[str, ...]
    cpu_count: int
    memory_mb: int
    disk_size_mb: int


def check_template_request(
    request: TemplateRequest, config: EngineConfig, *, is_named: bool = True
) -> BuildParameters:
    """Check a request; raises ``InvalidArgumentError`` with the texts of interface 1.5."""
    reference, tags = _check_name(request.name or request.alias or "", is_named)
    tags += check_tags(request.tags or [])
    if len(tags) > _MAX_TAGS:
        raise InvalidArgumentError(f"Invalid tag: there can be {_MAX_TAGS} tags")
    cpus = DEFAULT_CPU_COUNT if request.cpu_count is None else request.cpu_count
    if cpus < 1 or (cpus != 1 and cpus % 2):
        raise InvalidArgumentError("CPU count must be 1 or an even number")
    if cpus > _MAX_CPUS:
        raise InvalidArgumentError(f"CPU count must be at most {_MAX_CPUS}")
    memory = DEFAULT_MEMORY_MB if request.memory_mb is None else request.memory_mb
    check_memory(memory)
    free = request.min_free_disk_mb or 0
    if not 0 <= free <= _MAX_DISK:
        raise InvalidArgumentError(f"minFreeDiskMb must be between 0 and {_MAX_DISK}")
    disk = max(config.default_limits.disk_mb, free)
    unique = tuple(dict.fromkeys(tags)) or (DEFAULT_TAG,)
    plain = None if reference is None else reference.without_tag
    return BuildParameters(plain, unique, cpus, memory, disk)


def _check_name(name: str, is_named: bool) -> tuple[Reference | None, list[str]]:
    if not name.strip():
        if is_named:
            raise InvalidArgumentError("Name is required")
        return None, []
    if len(name) > MAX_NAME:
        raise InvalidArgumentError(f"Name must be at most {MAX_NAME} characters")
    reference = own_reference(name)
    return reference, [reference.tag or DEFAULT_TAG] if ":" in name else []


def plan_dockerfile(request: DockerfileRequest) -> BuildStart:
    """Translate the Dockerfile of an older client to a build (T19).

    Such clients push the files in an image to a registry, which this engine does not have, so a
    Dockerfile that needs files is refused. Raises ``InvalidArgumentError``.
    """
    found = parse_dockerfile(request.dockerfile)
    if any(step.type == "COPY" for step in found.steps):
        raise InvalidArgumentError(
            "files for COPY and ADD cannot come this way: announce the build at /v3/templates"
        )
    return BuildStart(
        from_image=found.image,
        steps=found.steps,
        start_cmd=request.start_cmd or found.start_command,
        ready_cmd=request.ready_cmd or found.ready_command,
    )


def own_reference(text: str) -> Reference:
    """Parse a reference that is to be written; raises ``InvalidArgumentError`` for other teams."""
    reference = parse_reference(text)
    if reference.namespace not in (None, NAMESPACE):
        raise InvalidArgumentError(
            f"namespace '{reference.namespace}' must match your team '{NAMESPACE}'"
        )
    return reference


def check_tags(tags: list[str]) -> list[str]:
    """Normalise tags; raises ``InvalidArgumentError``."""
    return [parse_tag(tag) for tag in tags]


def check_start(request: BuildStart) -> None:
    """Check that a build has one base; raises ``InvalidArgumentError``."""
    if (request.from_image is None) == (request.from_template is None):
        raise InvalidArgumentError("exactly one of fromImage and fromTemplate must be given")
    registry = request.from_image_registry
    if registry is not None and request.from_image is None:
        raise InvalidArgumentError("fromImageRegistry goes with fromImage only")
