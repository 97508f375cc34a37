"""The variables of a Dockerfile, set by ARG and ENV, and their values (interface 7.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.dockerfile.text import Expander

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODIFIERS: Final = (":-", ":+", ":?", "-", "+", "?")


class Variables:
    """The variables and their values at one line of a Dockerfile."""

    def __init__(self, given: Mapping[str, str], predefined: Mapping[str, str]) -> None:
        """``given`` are the values of ``--build-arg``."""
        self._given = given
        self._predefined = predefined
        self._global: dict[str, str] = {}
        self._args: dict[str, str] = {}
        self._envs: dict[str, str | None] = {}
        self._has_image = False
        self.escape = "\\"
        self.declared: set[str] = set()

    def enter_stage(self) -> None:
        """Process FROM: an earlier ARG has no value after it, unless it is declared again."""
        self._global, self._args = self._args, {}
        self._has_image = True

    def declare(self, name: str, default: str | None) -> None:
        """Process an ARG."""
        self.declared.add(name)
        known = {**self._predefined, **self._global, **({} if default is None else {name: default})}
        value = self._given.get(name, known.get(name))
        if value is not None:
            self._args[name] = value

    def set(self, name: str, text: str) -> str:
        """Process an ENV; returns the value for the build step."""
        is_known = True

        def lookup(name: str, modifier: str) -> str:
            nonlocal is_known
            if self._is_known(name):
                return _protect(self._value(name, modifier))
            is_known = False
            return _for_engine(name, modifier)

        value = Expander(lookup, self.escape, _protect).expand(text)
        # Only the engine knows the variables of the image.
        self._envs[name] = value.replace("\\$", "$") if is_known else None
        return value

    def expand(self, text: str) -> str:
        """Expand a word of any other instruction; raises ``InvalidArgumentError``."""
        return Expander(self._value, self.escape).expand(text)

    def expand_plain(self, text: str) -> str:
        """Expand a here-document; raises ``InvalidArgumentError``."""
        return Expander(self._value, self.escape).expand_plain(text)

    def for_commands(self) -> dict[str, str]:
        """The values of ARG that RUN gets as environment variables, unless ENV sets them."""
        return {name: value for name, value in self._args.items() if name not in self._envs}

    def _is_known(self, name: str) -> bool:
        return self._envs.get(name, self._args.get(name)) is not None

    def _value(self, name: str, modifier: str) -> str:
        value = self._envs[name] if name in self._envs else self._args.get(name)
        if value is None and self._has_image and (name in self._envs or name not in self.declared):
            raise InvalidArgumentError(
                f"the value of ${name} is known to the image only: set it by ARG or ENV"
            )
        if not modifier:
            return value or ""
        kind = next((kind for kind in _MODIFIERS if modifier.startswith(kind)), None)
        if kind is None:
            raise InvalidArgumentError(f"'${{{name}{modifier[:50]}}}' is not supported")
        is_set = value is not None and (bool(value) or not kind.startswith(":"))
        word = modifier[len(kind) :]
        if kind.endswith("+"):
            return self.expand(word) if is_set else ""
        if kind.endswith("?") and not is_set:
            raise InvalidArgumentError(f"{name}: {word or 'it has no value'}")
        return (value or "") if is_set else self.expand(word)


def _protect(text: str) -> str:
    """Escape ``$``, so that the engine replaces no variable in the text."""
    return text.replace("$", "\\$")


def _for_engine(name: str, modifier: str) -> str:
    """A reference to a variable of the image, in a form that the engine can replace."""
    if not modifier:
        return f"${{{name}}}"
    if modifier.startswith(":-") and not set(modifier) & set("${}\\'\""):
        return f"${{{name}{modifier}}}"
    raise InvalidArgumentError(f"'${{{name}{modifier[:50]}}}' of a variable of the image")
