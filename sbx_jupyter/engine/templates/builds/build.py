"""One build, from its base to its last layer (interface 7.3 to 7.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.startup import run_start_command
from sbx_jupyter.engine.state.rows import StepRow, now
from sbx_jupyter.engine.templates.builds import readiness
from sbx_jupyter.engine.templates.builds.build_sandbox import (
    CommandError,
    RootFilesystem,
    open_build_sandbox,
)
from sbx_jupyter.engine.templates.builds.step_state import StepState, step_key
from sbx_jupyter.engine.templates.builds.steps import StepError, StepRunner, describe, state_after
from sbx_jupyter.engine.templates.uploads import stored_hash
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import NoSpaceError, SbxError
from sbx_jupyter.protocol.runtime import ProcessConfig
from sbx_jupyter.protocol.sockets import READ_SOCKETS, listening_ports
from sbx_jupyter.protocol.templates import BuildStart, Step

if TYPE_CHECKING:
    import contextlib

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.state.rows import BuildRow, TemplateRow
    from sbx_jupyter.engine.storage.flatten import Flattener
    from sbx_jupyter.engine.templates.builds.build_log import BuildLog
    from sbx_jupyter.engine.templates.builds.build_sandbox import BuildSandbox
    from sbx_jupyter.engine.templates.builds.step_cache import StepCache
    from sbx_jupyter.engine.templates.catalogue import Catalogue
    from sbx_jupyter.engine.templates.images.image_store import ImageStore
    from sbx_jupyter.engine.templates.uploads import Uploads
    from sbx_jupyter.protocol.templates import Level

MAX_LAYERS: Final = 150
READY_LIMIT: Final = 600.0
"""Seconds that a start command has in a build to become ready."""

_FIRST: Final = Step(type="USER", args=["user", "true"])
_BASE: Final = "base"
_WITHOUT_ROOT: Final = (
    "Without isolation by namespaces a sandbox has no file system of its own: commands find what "
    "belongs to it below $HOME, $TMPDIR, $SBX_ROOT and in their working directory, cannot install "
    "packages of the system, and all users are one id"
)
_FINALIZE: Final = "finalize"


class BuildError(SbxError):
    """The build failed; ``step`` is the step or phase that failed."""

    code = "failed_precondition"

    def __init__(self, message: str, step: str | None) -> None:
        super().__init__(message)
        self.step = step


@dataclass(slots=True)
class BuildServices:
    """The parts of the engine that every build uses."""

    context: Context
    catalogue: Catalogue
    flattener: Flattener
    cache: StepCache
    uploads: Uploads
    images: ImageStore
    stock: str
    """Identifies the stock root file system, which differs between machines and versions."""

    virtual: bool
    """Whether sandboxes have one user id only, so that files cannot change their owner."""

    has_roots: bool
    """Whether a sandbox has a root file system of its own, which steps can change."""


@dataclass(slots=True)
class BuildResult:
    """The result of a finished build."""

    root: RootFilesystem
    state: StepState
    start_command: str | None
    ready_command: str | None


@dataclass(slots=True)
class BuildRun:
    """One build while it runs; ``held`` keeps its layers from collection."""

    services: BuildServices
    template: TemplateRow
    build: BuildRow
    request: BuildStart
    log: BuildLog
    held: contextlib.AsyncExitStack
    used: list[StepRow] = field(default_factory=list[StepRow])
    """Steps to keep in the cache, whether or not the build succeeds."""

    _root: RootFilesystem = field(default_factory=lambda: RootFilesystem("host", ()))
    _state: StepState = field(default_factory=StepState)
    _phase: str | None = _BASE
    _prefix: str = _BASE
    _is_forced: bool = False
    _start: str | None = None
    _ready: str | None = None

    async def run(self) -> BuildResult:
        """Run all steps; raises ``BuildError``."""
        try:
            self._is_forced = self.request.force
            await self._begin()
            steps = self.request.steps or []
            for number, step in enumerate(steps, 1):
                self._phase, self._prefix = str(number), f"builder {number}/{len(steps)}"
                await self._step(step)
            self._phase = self._prefix = _FINALIZE
            return await self._finish()
        except (StepError, CommandError) as error:
            raise BuildError(error.message, self._phase) from error
        except NoSpaceError as error:
            raise BuildError(f"no space left on the disk: {error.message}", self._phase) from error
        except SbxError as error:
            raise BuildError(error.message, self._phase) from error
        except OSError as error:
            raise BuildError(f"the build failed: {error.strerror}", self._phase) from error

    @property
    def phase(self) -> str | None:
        """The step or phase that runs now."""
        return self._phase

    def _say(self, message: str, level: Level = "info") -> None:
        self.log.add(f"[{self._prefix}] {message}", self._phase, level)

    def _say_output(self, line: str, kind: str) -> bool:
        level: Level = "warn" if kind == "stderr" else "info"
        return self.log.add_output(f"[{self._prefix}] [{kind}]: {line}", self._phase, level)

    def _runner(self) -> StepRunner:
        return StepRunner(
            virtual=self.services.virtual,
            timeout=self.services.context.config.build_step_timeout,
            say=self._say_output,
            max_bytes=self.build.disk_size_mb << 20,
            has_root=self.services.has_roots,
        )

    # The base

    async def _begin(self) -> None:
        request = self.request
        if request.from_template is not None:
            self._from_template(request.from_template)
            self._say(f"FROM template {request.from_template} {_shown(self._root.layers)}")
        else:
            await self._from_image(request.from_image or "")
        self._hold(self._root.layers)
        if not self.services.has_roots:
            self._say(_WITHOUT_ROOT, "warn")
        await self.log.save()
        # Steps run as ``user``, who has password-less sudo.
        await self._step(_FIRST)

    def _from_template(self, reference: str) -> None:
        _, build = self.services.catalogue.resolve(reference)
        if not self.services.has_roots and not build.base:
            raise StepError(
                f"'{reference}' stands on a container image, which needs isolation by namespaces"
            )
        self._root = RootFilesystem(build.base, build.layers)
        self._state = StepState("root", build.default_cwd, dict(build.envs))
        self._start, self._ready = build.start_command, build.ready_command

    async def _from_image(self, name: str) -> None:
        images = self.services.images
        stock = images.stock_for(name)
        if stock is not None:
            self._say(f"FROM {name}: the stock template '{stock}' stands for it")
            self._from_template(stock)
            return
        found = await images.find(
            name,
            self.request.from_image_registry,
            owner=self.template.owner,
            force=self._is_forced,
            say=self._say,
        )
        self._root = RootFilesystem("", found.layers)
        self._state = StepState("root", "", dict(found.envs))
        self._say(f"FROM {name} [{found.key[-64:][:12]}]")

    # Steps

    async def _step(self, step: Step) -> None:
        before, self._state = self._state, state_after(step, self._state)
        self._is_forced |= step.force
        if step.type == "ENV":
            self._say(describe(step))
            await self.log.save()
            return
        # The key has the state before the step; the step runs with the state after it.
        state = self._state
        owner = self.template.owner
        key = step_key(self._base_key, self._root.layers, step, before, owner=owner)
        known = None if self._is_forced else self.services.cache.find(key)
        if known is not None:
            self._say(f"CACHED {describe(step)} {_shown(known.layers)}")
            self._hold(known.layers)
        else:
            self._say(describe(step))
            known = await self._run_step(key, step, state)
        self.used.append(known)
        for layer in known.layers:
            self._put_on(layer)
        await self.log.save()

    @property
    def _base_key(self) -> str:
        return self.services.stock if self._root.base == "host" else ""

    async def _run_step(self, key: str, step: Step, state: StepState) -> StepRow:
        upload = None
        if step.type == "COPY" and step.files_hash is not None:
            stored = stored_hash(step.files_hash, self.template.owner)
            if not self.services.uploads.has(stored):
                raise StepError(f"the files of '{describe(step)}' were not uploaded")
            upload = self.services.uploads.path(stored)
        if len(self._root.layers) >= MAX_LAYERS:
            raise StepError(f"a template can stand on {MAX_LAYERS} layers: join some steps")
        context = self.services.context
        name = await self.held.enter_async_context(context.layers.reserve())
        layers: tuple[str, ...] = ()
        async with open_build_sandbox(context, self.template, self.build, self._root) as sandbox:
            if await self._runner().run(sandbox, step, state, upload):
                layers = (await sandbox.seal(name),)
                reached("build.sealed")
        return StepRow(key=key, layers=layers, below=self._root.layers, used_at=now())

    def _put_on(self, layer: str) -> None:
        """Use the layer of a step, which was made on those below, for the next steps."""
        layers = self.services.context.layers
        if layers.are_whole:
            self._root = RootFilesystem(self._root.base, (layer,))
        else:
            self._root = RootFilesystem(self._root.base, (layer, *self._root.layers))

    def _hold(self, layers: tuple[str, ...]) -> None:
        self.held.enter_context(self.services.context.layers.hold(layers))

    # The end

    async def _finish(self) -> BuildResult:
        context, request = self.services.context, self.request
        self._say("Finalizing")
        name = await self.held.enter_async_context(context.layers.reserve())
        ids = (self.template.template_id, self.build.build_id)
        async with open_build_sandbox(context, self.template, self.build, self._root) as sandbox:
            await self._runner().finalize(sandbox, self._state, *ids)
            layer = await sandbox.seal(name)
        self._put_on(layer)
        start, ready = request.start_cmd or None, request.ready_cmd or None
        if start is None and ready is None:
            start, ready = self._start, self._ready
        result = BuildResult(self._root, self._state, start, ready)
        if start is not None or ready is not None:
            await self._try_start(result)
        self._say("Template is made")
        await self.log.save()
        return result

    async def _try_start(self, result: BuildResult) -> None:
        """Start the template once as its sandboxes will; what this writes is not kept."""
        state, start, ready = result.state, result.start_command, result.ready_command
        seconds = None if start is None else readiness.seconds_of(ready)
        if start is not None:
            self._say(f"Running start command: {start}")
        if ready is not None:
            self._say(f"Waiting for ready command: {ready}")
        else:
            most = f"{readiness.DEFAULT_SECONDS} seconds at most"
            self._say(f"Waiting until the start command listens on a port, {most}")
        await self.log.save()
        async with open_build_sandbox(
            self.services.context,
            self.template,
            self.build,
            self._root,
            user=state.user,
            workdir=state.workdir,
            envs=state.envs,
        ) as sandbox:
            before = set[int]() if seconds is None else await self._read_listening_ports(sandbox)
            await run_start_command(
                start,
                ready or readiness.until_something_listens(before),
                sandbox.live,
                limit=READY_LIMIT,
                say=self._say_output,
            )
            if seconds is not None:
                ports = readiness.opened_ports(before, await self._read_listening_ports(sandbox))
                if ports:
                    result.ready_command = readiness.until_ports_listen(ports, seconds)
                    named = ", ".join(map(str, ports))
                    self._say(f"New sandboxes wait until something listens on port {named}")
        self._say("Template is ready")

    async def _read_listening_ports(self, sandbox: BuildSandbox) -> set[int]:
        said: list[str] = []
        command = ProcessConfig(cmd="/bin/bash", args=["-c", READ_SOCKETS])
        await sandbox.run(command, user="root", timeout=60, say=lambda line, _: said.append(line))
        return listening_ports("\n".join(said))


def _shown(layers: tuple[str, ...]) -> str:
    """The short name of the topmost layer, for messages."""
    return f"[{layers[0].rpartition('/')[2][:12]}]" if layers else ""
