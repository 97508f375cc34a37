"""Variants of installed kernel specifications whose kernels run in sandboxes.

A variant is a file among the user's own specifications, so every program of Jupyter can start it by
its name. It names the directories of this machine that its sandboxes see read-only, to which the
user said yes when it was made.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from jupyter_core.paths import jupyter_data_dir

from sbx_jupyter.errors import AlreadyExistsError, FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

_FORKED: Final = ("-m", "ipykernel_launcher", "-f", "{connection_file}")
"""Arguments for which a sandbox forks a kernel instead of starting a program."""

PROVISIONER: Final = "sbx-provisioner"
_MARK: Final = "sbx_jupyter"
_RESOURCES: Final = "{resource_dir}"
_OPEN_TO_ALL: Final = 0o005
_UNTOLD: Final = "-Xfrozen_modules=off"
"""For a debugger that a forked kernel does not have; ipykernel adds it to its own specification."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The variant of a kernel specification whose kernels run in sandboxes."""

    name: str
    """Name of the specification with which kernels run in sandboxes."""
    is_there: bool
    """Whether it is installed, with the same directories to show."""
    argv: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Directories of this machine that the sandbox must see, besides what all sandboxes see."""


def is_sandboxed(spec: KernelSpec) -> bool:
    """Whether kernels of a specification run in sandboxes."""
    return _provisioner(spec.metadata).get("provisioner_name") == PROVISIONER


def find_variant(name: str, specs: KernelSpecManager) -> Variant:
    """The sandboxed variant of an installed specification, which need not exist yet.

    Raises ``NoSuchKernel``, ``FailedPreconditionError`` with the reason when its kernels cannot
    run in a sandbox, and ``AlreadyExistsError`` when the variant's name is taken.
    """
    spec = specs.get_kernel_spec(name)
    if is_sandboxed(spec):
        return Variant(name, is_there=True)
    argv, shown = _needs(spec)
    variant = Variant(f"sbx-{name}", is_there=False, argv=argv, shown=shown)
    if variant.name not in specs.find_kernel_specs():
        return variant
    other = specs.get_kernel_spec(variant.name)
    if is_sandboxed(other) and _is_same(other, variant):
        return Variant(variant.name, is_there=True, argv=argv, shown=shown)
    if other.metadata.get(_MARK) != {"variant_of": name}:
        raise AlreadyExistsError(f"another kernel is named '{variant.name}' already")
    return variant


def install_variant(name: str, specs: KernelSpecManager) -> Variant:
    """Write the sandboxed variant of a specification among the user's; raises as ``find_variant``.

    The caller has asked the user about the directories that it shows.
    """
    variant = find_variant(name, specs)
    if variant.is_there:
        return variant
    spec = specs.get_kernel_spec(name)
    config: dict[str, Any] = {"show": list(variant.shown)} if variant.shown else {}
    metadata: dict[str, Any] = {
        **spec.metadata,
        "kernel_provisioner": {"provisioner_name": PROVISIONER, "config": config},
        _MARK: {"variant_of": name},
    }
    written = {
        "argv": list(variant.argv),
        "display_name": f"{spec.display_name} (sandbox)",
        "language": spec.language,
        "interrupt_mode": spec.interrupt_mode,
        "env": spec.env,
        "metadata": metadata,
    }
    folder = Path(jupyter_data_dir()) / "kernels" / variant.name
    folder.mkdir(parents=True, exist_ok=True)
    for logo in Path(spec.resource_dir).glob("logo-*"):
        if logo.suffix in (".png", ".svg") and logo.is_file():
            shutil.copyfile(logo, folder / logo.name)
    (folder / "kernel.json").write_text(json.dumps(written, indent=1), encoding="utf-8")
    return variant


def _provisioner(metadata: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", metadata.get("kernel_provisioner") or {})


def _is_same(other: KernelSpec, variant: Variant) -> bool:
    config: dict[str, Any] = _provisioner(other.metadata).get("config") or {}
    return other.argv == list(variant.argv) and config.get("show", []) == list(variant.shown)


def _needs(spec: KernelSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The command of a kernel in a sandbox, and the directories that it needs to see.

    Raises ``FailedPreconditionError``.
    """
    program, *arguments = spec.argv
    arguments = [argument for argument in arguments if argument != _UNTOLD]
    if program in ("python", "python3", sys.executable):
        if tuple(arguments[: len(_FORKED)]) == _FORKED:
            return ("python", *arguments), ()
        program = sys.executable
    found = shutil.which(program)
    if found is None:
        raise FailedPreconditionError(f"this machine has no program '{program}'")
    # Links to the directory are not there in a sandbox; a link in it may be how it knows its own.
    path = Path(os.path.realpath(Path(found).parent)) / Path(found).name
    shown = tuple(dict.fromkeys(map(str, _to_show(path))))
    resources = os.path.realpath(spec.resource_dir)
    if any(_RESOURCES in argument for argument in arguments):
        if not _is_seen(Path(resources)) and not _is_below(resources, shown):
            raise FailedPreconditionError(
                f"the kernel needs the files in {resources}, which sandboxes do not see"
            )
        arguments = [argument.replace(_RESOURCES, resources) for argument in arguments]
    return (str(path), *arguments), shown


def _to_show(program: Path) -> Iterable[Path]:
    """The prefixes of a program, and of what it is a link to, that sandboxes do not see."""
    for each in (program, program.resolve()):
        if _is_seen(each):
            continue
        prefix = each.parent.parent
        if each.parent.name != "bin" or len(prefix.parts) < 3:
            raise FailedPreconditionError(
                f"sandboxes do not see {each}, and it lies in no 'bin' of an environment"
            )
        if prefix.stat().st_mode & _OPEN_TO_ALL != _OPEN_TO_ALL:
            raise FailedPreconditionError(
                f"sandboxes can see only what all users may read, and {prefix} is not"
            )
        yield prefix


def _is_seen(path: Path) -> bool:
    """Whether all sandboxes see a file: those of the system, and of this Python."""
    own = {os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)}
    inner = path
    while inner != inner.parent:
        inner = inner.parent
        if str(inner) in own or str(inner) in ("/usr", "/bin", "/sbin", "/lib"):
            return True
        if (inner / "pyvenv.cfg").exists() or (inner / "conda-meta").exists():
            return False  # another environment inside of one that is seen: it is hidden there
    return False


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)
