"""One build, from its ground to its last layer (interface 7.3 to 7.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.startup import run_start_command
from sbx_jupyter.engine.state.rows import StepRow, now
from sbx_jupyter.engine.templates import readiness
from sbx_jupyter.engine.templates.build_sandbox import CommandError, Ground, open_bench
from sbx_jupyter.engine.templates.step_state import Setting, step_key
from sbx_jupyter.engine.templates.steps import StepError, StepRunner, after, describe
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import NoSpaceError, SbxError
from sbx_jupyter.protocol.runtime import ProcessConfig
from sbx_jupyter.protocol.templates import BuildStart, Step

if TYPE_CHECKING:
    import contextlib

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.state.rows import BuildRow, TemplateRow
    from sbx_jupyter.engine.templates.build_log import BuildLog
    from sbx_jupyter.engine.templates.build_sandbox import Bench
    from sbx_jupyter.engine.templates.cache import StepCache
    from sbx_jupyter.engine.templates.catalog import Catalog
    from sbx_jupyter.engine.templates.images.library import Images
    from sbx_jupyter.engine.templates.uploads import Uploads
    from sbx_jupyter.protocol.templates import Level

MAX_LAYERS: Final = 150
READY_LIMIT: Final = 600.0
"""Seconds that a start command has to get ready in a build."""

_FIRST: Final = Step(type="USER", args=["user", "true"])
_BASE: Final = "base"
_FINALIZE: Final = "finalize"


class BuildError(SbxError):
    """The build cannot be finished; ``step`` says where it stopped."""

    code = "failed_precondition"

    def __init__(self, message: str, step: str | None) -> None:
        super().__init__(message)
        self.step = step


@dataclass(slots=True)
class Tools:
    """What every build works with."""

    context: Context
    catalog: Catalog
    cache: StepCache
    uploads: Uploads
    images: Images
    stock: str
    """What tells the stock root file systems of different machines and versions apart."""

    virtual: bool
    has_roots: bool
    """Whether a sandbox has a file system of its own, which steps could change."""


@dataclass(slots=True)
class Outcome:
    """What a finished build has made."""

    ground: Ground
    setting: Setting
    start_command: str | None
    ready_command: str | None


@dataclass(slots=True)
class BuildRun:
    """The state of one build while it is made; everything it makes is held by ``held``."""

    tools: Tools
    template: TemplateRow
    build: BuildRow
    request: BuildStart
    log: BuildLog
    held: contextlib.AsyncExitStack
    used: list[StepRow] = field(default_factory=list)
    """Steps to be remembered, whether or not the build succeeds."""

    _ground: Ground = field(default_factory=lambda: Ground("host", ()))
    _setting: Setting = field(default_factory=Setting)
    _phase: str | None = _BASE
    _prefix: str = _BASE
    _is_forced: bool = False
    _start: str | None = None
    _ready: str | None = None

    async def run(self) -> Outcome:
        """Make the layers; raises ``BuildError``."""
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
        """Where the build is now."""
        return self._phase

    def _say(self, message: str, level: Level = "info") -> None:
        self.log.add(f"[{self._prefix}] {message}", self._phase, level)

    def _say_output(self, line: str, kind: str) -> bool:
        level: Level = "warn" if kind == "stderr" else "info"
        return self.log.add_output(f"[{self._prefix}] [{kind}]: {line}", self._phase, level)

    def _runner(self) -> StepRunner:
        return StepRunner(
            virtual=self.tools.virtual,
            timeout=self.tools.context.config.build_step_timeout,
            say=self._say_output,
            max_bytes=self.build.disk_size_mb << 20,
        )

    # Where it begins

    async def _begin(self) -> None:
        request = self.request
        if request.from_template is not None:
            self._from_template(request.from_template)
            self._say(f"FROM template {request.from_template} {_shown(self._ground.layers)}")
        else:
            await self._from_image(request.from_image or "")
        self._hold(self._ground.layers)
        await self.log.save()
        # Steps run as ``user``, who has password-less sudo.
        await self._step(_FIRST)

    def _from_template(self, reference: str) -> None:
        template, build = self.tools.catalog.resolve(reference)
        del template
        self._ground = Ground(build.base, build.layers)
        self._setting = Setting("root", build.default_cwd, dict(build.envs))
        self._start, self._ready = build.start_command, build.ready_command

    async def _from_image(self, name: str) -> None:
        images = self.tools.images
        stock = images.stock_for(name)
        if stock is not None:
            self._say(f"FROM {name}: the stock template '{stock}' stands for it")
            self._from_template(stock)
            return
        found = await images.find(
            name, self.request.from_image_registry, force=self._is_forced, say=self._say
        )
        self._ground = Ground("", found.layers)
        self._setting = Setting("root", "", dict(found.envs))
        self._say(f"FROM {name} [{found.key[-64:][:12]}]")

    # Steps

    async def _step(self, step: Step) -> None:
        before, self._setting = self._setting, after(step, self._setting)
        self._is_forced |= step.force
        if step.type == "ENV":
            self._say(describe(step))
            await self.log.save()
            return
        # WORKDIR and USER work with what they lead to, the others with what they find.
        setting = self._setting
        key = step_key(self._base_key, self._ground.layers, step, before)
        known = None if self._is_forced else self.tools.cache.find(key)
        if known is not None:
            self._say(f"CACHED {describe(step)} {_shown(known.layers)}")
            self._hold(known.layers)
        else:
            self._say(describe(step))
            known = await self._make(key, step, setting)
        self.used.append(known)
        self._put_on(known.layers)
        await self.log.save()

    @property
    def _base_key(self) -> str:
        return self.tools.stock if self._ground.base == "host" else ""

    async def _make(self, key: str, step: Step, setting: Setting) -> StepRow:
        upload = None
        if step.type == "COPY" and step.files_hash is not None:
            if not self.tools.uploads.has(step.files_hash):
                raise StepError(f"the files of '{describe(step)}' were not uploaded")
            upload = self.tools.uploads.path(step.files_hash)
        if len(self._ground.layers) >= MAX_LAYERS:
            raise StepError(f"a template can stand on {MAX_LAYERS} layers: join some steps")
        context = self.tools.context
        name = await self.held.enter_async_context(context.layers.reserve())
        layers: tuple[str, ...] = ()
        async with open_bench(context, self.template, self.build, self._ground) as bench:
            if await self._runner().run(bench, step, setting, upload):
                await bench.seal(name)
                reached("build.sealed")
                layers = (name,)
        return StepRow(key=key, layers=layers, below=self._ground.layers, used_at=now())

    def _put_on(self, layers: tuple[str, ...]) -> None:
        self._ground = Ground(self._ground.base, (*layers, *self._ground.layers))

    def _hold(self, layers: tuple[str, ...]) -> None:
        self.held.enter_context(self.tools.context.layers.hold(layers))

    # Where it ends

    async def _finish(self) -> Outcome:
        context, request = self.tools.context, self.request
        self._say("Finalizing")
        name = await self.held.enter_async_context(context.layers.reserve())
        ids = (self.template.template_id, self.build.build_id)
        async with open_bench(context, self.template, self.build, self._ground) as bench:
            await self._runner().finalize(bench, self._setting, *ids)
            await bench.seal(name)
        self._put_on((name,))
        start, ready = request.start_cmd or None, request.ready_cmd or None
        if start is None and ready is None:
            start, ready = self._start, self._ready
        outcome = Outcome(self._ground, self._setting, start, ready)
        if start is not None or ready is not None:
            await self._try_start(outcome)
        self._say("Template is made")
        await self.log.save()
        return outcome

    async def _try_start(self, outcome: Outcome) -> None:
        """Start the template once as its sandboxes will; what that writes is not kept."""
        setting, start, ready = outcome.setting, outcome.start_command, outcome.ready_command
        seconds = None if start is None else readiness.seconds_of(ready)
        if start is not None:
            self._say(f"Running start command: {start}")
        if ready is not None:
            self._say(f"Waiting for ready command: {ready}")
        else:
            most = f"{readiness.DEFAULT_SECONDS} seconds at most"
            self._say(f"Waiting until the start command listens on a port, {most}")
        await self.log.save()
        async with open_bench(
            self.tools.context,
            self.template,
            self.build,
            self._ground,
            user=setting.user,
            workdir=setting.workdir,
            envs=setting.envs,
        ) as bench:
            before = set() if seconds is None else await self._listening(bench)
            await run_start_command(
                start,
                ready or readiness.until_something_listens(before),
                bench.sandbox,
                limit=READY_LIMIT,
                say=self._say_output,
            )
            if seconds is not None:
                ports = readiness.learnt(before, await self._listening(bench))
                if ports:
                    outcome.ready_command = readiness.until_ports_listen(ports, seconds)
                    named = ", ".join(map(str, ports))
                    self._say(f"New sandboxes wait until something listens on port {named}")
        self._say("Template is ready")

    async def _listening(self, bench: Bench) -> set[int]:
        said: list[str] = []
        command = ProcessConfig(cmd="/bin/sh", args=["-c", readiness.READ_SOCKETS])
        await bench.run(command, user="root", timeout=60, say=lambda line, _: said.append(line))
        return readiness.listening("\n".join(said))


def _shown(layers: tuple[str, ...]) -> str:
    """The name of the topmost layer, as short as the messages have it."""
    return f"[{layers[0].rpartition('/')[2][:12]}]" if layers else ""
