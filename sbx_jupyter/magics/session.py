"""The sandboxes of one notebook: by name, the one in use, their forks and their contexts."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, cast

from sbx_jupyter.client import Context, Sandbox
from sbx_jupyter.client.adoption import adopt, is_sandbox
from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.client.connection.configured import named_config
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.magics.checkpoints import Checkpoints
from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.known import TEMPLATE, Known
from sbx_jupyter.magics.parsing import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sbx_jupyter.client.connection.config import ConnectionConfig

LIFETIME: Final = 3600
"""Seconds that a sandbox made by a magic has from its last use; then it is paused."""

_EXTEND_AFTER: Final = LIFETIME / 4


class Session:
    """The state of the magics of one kernel. ``variables`` is the notebook's namespace."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.config: ConnectionConfig | None = None
        self.current: Known | None = None
        self.former: str | None = None
        """The id of the sandbox that was in use before the kernel was restarted."""
        self.checkpoints = Checkpoints()
        self.forks: dict[str, list[Known]] = {}
        self.counts: dict[tuple[str, str, int], int] = {}
        """The cell of an execution: by sandbox, by context or language, and by count."""
        self._variables = variables
        self._known: dict[str, Known] = {}
        self._contexts: dict[tuple[str, str], Context] = {}

    def create(self, name: str = "", *, template: str = TEMPLATE, **options: Any) -> Known:
        """Start a sandbox and use it from now on. Raises ``MagicError`` for a name in use."""
        self.check_name(name)
        metadata = {"name": name} if name else {}
        options.setdefault("timeout", LIFETIME)
        options.setdefault("on_timeout", "pause")
        options.setdefault("auto_resume", True)
        box = Sandbox.create(template, metadata=metadata, config=self.config, **options)
        known = self.add(box, name)
        known.template = template
        self.use(known)
        return known

    def use(self, known: Known) -> None:
        """Use a sandbox from now on, and let the notebook remember it."""
        self.current = known
        known.remember()

    def check_name(self, name: str) -> None:
        """Raise ``MagicError`` for a name that means something else in a magic."""
        if name in LANGUAGES:
            raise MagicError(f"{name!r} is a language, and so no name for a sandbox")
        if name.startswith("-"):
            raise MagicError(f"{name!r} is no name for a sandbox")
        if (known := self._named(name)) is not None:
            raise MagicError(f"there is a sandbox {name!r} already: {known.box.sandbox_id}")

    def add(self, box: Sandbox, name: str = "") -> Known:
        """Remember a sandbox."""
        known = self._known.setdefault(box.sandbox_id, Known(box, name))
        known.box = box
        known.name = name or known.name
        return known

    def find(self, name: str | None) -> Known:
        """The sandbox with a name, an id or in a variable; without one, the sandbox in use.

        Makes one if none was ever in use. Raises ``MagicError`` for an unknown or ended one.
        """
        if name is None:
            return self._find_current()
        if (known := self._named(name)) is not None:
            if known.ended:
                raise MagicError(ended(known))
            return known
        if name in self._variables and is_sandbox(self._variables[name]):
            return self.add(adopt(self._variables[name]))
        return self._find_elsewhere(name)

    def _find_current(self) -> Known:
        if self.current is None and self.former is not None:
            self.use(self._find_elsewhere(self.former))
        if self.current is None:
            self.create()
            assert self.current is not None
        if self.current.ended:
            raise MagicError(ended(self.current))
        if self.config is not None and self.current.config != self.config:
            raise MagicError(
                f"the sandbox in use, {self.current.label}, is on another connection; name one"
            )
        return self.current

    @contextlib.contextmanager
    def on_connection(self, name: str | None) -> Generator[None]:
        """Find and create sandboxes on a connection by its name; ``None`` for the default one."""
        if name is None:
            yield
            return
        former, self.config = self.config, Portal.current().call(named_config(name))
        try:
            yield
        finally:
            self.config = former

    def find_all(self, name: str | None) -> list[Known]:
        """The forks of a sandbox, or the sandboxes in a list. Raises ``MagicError`` for none."""
        value = self._variables.get(name) if name else None
        if isinstance(value, list | tuple):
            items = list(cast("list[object]", value))
            if items and all(is_sandbox(item) for item in items):
                return [self.add(adopt(item)) for item in items]
        source = self.find(name)
        forks = [known for known in self.forks.get(source.box.sandbox_id, []) if not known.ended]
        if not forks:
            raise MagicError(f"{source.label} has no forks; make some with: %sbx fork 3")
        return forks

    def context(self, known: Known, name: str, language: str) -> Context:
        """The context of a sandbox with a name, made at its first use."""
        key = (known.box.sandbox_id, name)
        if (context := self._contexts.get(key)) is None:
            context = known.box.create_code_context(language=language)
            self._contexts[key] = context
        if context.language != language:
            raise MagicError(f"the context {name!r} runs {context.language}, not {language}")
        return context

    def forget_context(self, known: Known, name: str) -> None:
        """Make a new context at the next use of a name."""
        self._contexts.pop((known.box.sandbox_id, name), None)

    def extend(self, known: Known) -> None:
        """Give a sandbox in use its time again, at most every quarter of it."""
        if time.monotonic() - known.extended > _EXTEND_AFTER:
            known.extended = time.monotonic()
            known.box.resume(timeout=LIFETIME)

    def lose(self, known: Known) -> None:
        """Note that a sandbox has ended."""
        known.ended = True

    def names(self) -> list[str]:
        """Names that complete the name of a sandbox."""
        variables = [name for name, value in self._variables.items() if is_sandbox(value)]
        return [known.label for known in self._known.values() if not known.ended] + variables

    def label_of(self, sandbox_id: str) -> str | None:
        """The name of a sandbox in this notebook."""
        known = self._known.get(sandbox_id)
        return known.name if known is not None else None

    def _named(self, name: str) -> Known | None:
        if not name:
            return None
        for known in reversed(self._known.values()):
            if known.name == name and not known.ended:
                return known
        return self._known.get(name) or next(
            (known for known in reversed(self._known.values()) if known.name == name), None
        )

    def _find_elsewhere(self, name: str) -> Known:
        """A sandbox of the deployment that this notebook has not used yet."""
        found = Sandbox.list(config=self.config)
        for listed in found:
            if name in (listed.sandbox_id, (listed.metadata or {}).get("name")):
                box = Sandbox.connect(listed.sandbox_id, timeout=LIFETIME, config=self.config)
                return self.add(box, (listed.metadata or {}).get("name", ""))
        known = ", ".join(sorted(set(self.names()))[:8])
        raise MagicError(
            f"there is no sandbox {name!r}" + (f"; this notebook has {known}" if known else "")
        )


def ended(known: Known) -> str:
    """The message about a sandbox that has ended, with what to do about it."""
    restore = f", or %sbx restore {known.last_snapshot}" if known.last_snapshot else ""
    return f"the sandbox {known.label} has ended; start one with %sbx create{restore}"


def check_alive(session: Session, known: Known, error: Exception) -> None:
    """Raise ``MagicError`` when an error means that the sandbox has ended."""
    if not isinstance(error, NotFoundError):
        return
    try:
        known.box.info()
    except NotFoundError:
        session.lose(known)
        raise MagicError(ended(known)) from None
