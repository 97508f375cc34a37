"""Sends variables of the notebook into a sandbox and fetches variables from there.

Plain values travel as JSON, tables and arrays as Arrow, files by their paths. What came out of a
sandbox is parsed as data and never unpickled or run.
"""

from __future__ import annotations

import json
import math
import secrets
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from sbx_jupyter.client.files.sync_files import (
    blocking_download_at_most,
    blocking_read_at_most,
)
from sbx_jupyter.display.text import one_line, size
from sbx_jupyter.magics import tables
from sbx_jupyter.magics.errors import MagicError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbx_jupyter.client import Context, Execution, Sandbox

MAX_JSON: Final = 8 * 1024 * 1024
MAX_FILE: Final = 1024 * 1024 * 1024
MIME: Final = "application/vnd.sbx-jupyter.value+json"
_TIMEOUT: Final = 60.0
_FOLDER: Final = "/tmp"

_RECEIVE_TABLE: Final = """
def _sbx_receive(path):
    import importlib, json, os
    try:
        import pyarrow.ipc
    except ImportError:
        raise ImportError('tables travel with pyarrow, which this sandbox has not') from None
    try:
        with pyarrow.OSFile(path) as source:
            table = pyarrow.ipc.open_stream(source).read_all()
    finally:
        os.unlink(path)
    found = dict(table.schema.metadata or {})
    meta = json.loads(found.pop(b'sbx', b'{}'))
    table = table.replace_schema_metadata(found)
    kind = meta.get('kind')
    if kind == 'frame':
        return table.to_pandas()
    if kind == 'series':
        return table.to_pandas()['values'].rename(meta['name'])
    if kind == 'array':
        values = table.column('values').combine_chunks().to_numpy(zero_copy_only=False)
        return values.astype(meta['dtype'], copy=False).reshape(meta['shape'])
    if kind == 'polars':
        return importlib.import_module('polars').from_arrow(table)
    return table
"""

_SEND: Final = """
def _sbx_send(name, value, path):
    import json, pathlib
    from IPython.display import display
    kind = (type(value).__module__.partition('.')[0], type(value).__name__)
    kinds = {('pandas', 'DataFrame'): 'frame', ('pandas', 'Series'): 'series',
             ('numpy', 'ndarray'): 'array', ('pyarrow', 'Table'): 'table',
             ('polars', 'DataFrame'): 'polars'}
    if isinstance(value, pathlib.PurePath):
        answer = {'file': str(pathlib.Path(value).absolute())}
    elif kind in kinds:
        try:
            import pyarrow, pyarrow.ipc
        except ImportError:
            answer = {'error': 'tables travel with pyarrow, which the sandbox has not'}
        else:
            meta = {'kind': kinds[kind]}
            if kinds[kind] == 'frame':
                table = pyarrow.Table.from_pandas(value)
            elif kinds[kind] == 'series':
                meta['name'] = None if value.name is None else str(value.name)
                table = pyarrow.Table.from_pandas(value.to_frame('values'))
            elif kinds[kind] == 'array':
                meta.update(shape=list(value.shape), dtype=value.dtype.str)
                table = pyarrow.table({'values': pyarrow.array(value.ravel())})
            else:
                table = value if kinds[kind] == 'table' else value.to_arrow()
            found = dict(table.schema.metadata or {})
            found[b'sbx'] = json.dumps(meta).encode()
            table = table.replace_schema_metadata(found)
            with pyarrow.OSFile(path, 'wb') as sink:
                with pyarrow.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
            answer = {'table': path}
    else:
        try:
            if hasattr(value, 'item') and kind[0] == 'numpy':
                value = value.item()
            answer = {'json': json.dumps(value)}
        except (TypeError, ValueError, RecursionError):
            answer = {'error': f'a {type(value).__name__} is no plain value, table or path'}
    display({'MIME': {'name': name, **answer}}, raw=True)
""".replace("MIME", MIME)


class Value(msgspec.Struct):
    """A variable as the sandbox sends it: exactly one member beside ``name`` is set."""

    name: str
    json: str | None = None
    table: str | None = None
    file: str | None = None
    error: str | None = None


class Transfer:
    """Moves variables between a notebook and one context of a sandbox."""

    def __init__(self, box: Sandbox, language: str, context: Context | None) -> None:
        self._box = box
        self._language = language
        self._context = context

    def send(self, names: Iterable[str], variables: Mapping[str, Any]) -> None:
        """Set variables in the sandbox. Raises ``MagicError`` for one that cannot travel."""
        code: list[str] = []
        for name in names:
            if name not in variables:
                raise MagicError(f"-i {name}: there is no such variable in this notebook")
            try:
                code.append(self._setting(name, variables[name]))
            except MagicError as error:
                raise MagicError(f"-i {name}: {error}") from None
        if not code:
            return
        failed = self._run("\n".join(code)).error
        if failed is not None:
            raise MagicError(f"-i: {one_line(f'{failed.name}: {failed.value}')}")

    def fetch(self, names: Iterable[str]) -> dict[str, Any]:
        """Read variables of the sandbox. Raises ``MagicError`` for one that cannot travel."""
        names = list(names)
        if not names:
            return {}
        if self._language != "python":
            raise MagicError(f"-o fetches variables of Python, not of {self._language}")
        paths = {name: f"{_FOLDER}/.sbx-{secrets.token_hex(8)}.arrow" for name in names}
        calls = "\n".join(f"_sbx_send({name!r}, {name}, {path!r})" for name, path in paths.items())
        execution = self._run(f"{_SEND}\ntry:\n    {calls.replace(chr(10), chr(10) + '    ')}\n"
                              "finally:\n    del _sbx_send")  # fmt: skip
        if (failed := execution.error) is not None:
            raise MagicError(f"-o: {one_line(f'{failed.name}: {failed.value}')}")
        found = [_value_of(result.extra) for result in execution.results]
        values = {value.name: value for value in found if value is not None}
        return {name: self._read(name, values.get(name), paths[name]) for name in names}

    def _run(self, code: str) -> Execution:
        language = None if self._context is not None else self._language
        return self._box.run_code(code, language, self._context, timeout=_TIMEOUT)

    def _setting(self, name: str, value: object) -> str:
        """Code that sets a variable to a value, which is uploaded if it is large."""
        if isinstance(value, Path):
            return self._assignment(name, self._upload(value), is_path=True)
        if self._language == "python" and (table := tables.encode_table(value)) is not None:
            path = f"{_FOLDER}/.sbx-{secrets.token_hex(8)}.arrow"
            self._box.files.write(path, table)
            return f"{_RECEIVE_TABLE}\n{name} = _sbx_receive({path!r})\ndel _sbx_receive"
        return self._assignment(name, value)

    def _upload(self, path: Path) -> str:
        if not path.is_file():
            raise MagicError(f"there is no file {str(path)!r}")
        if path.stat().st_size > MAX_FILE:
            raise MagicError(f"{path} has {size(path.stat().st_size)}; %sbx put copies it")
        return self._box.files.upload(path, path.name).path

    def _assignment(self, name: str, value: Any, *, is_path: bool = False) -> str:
        plain = _as_json(value, strict=self._language != "python")
        match self._language:
            case "python" if is_path:
                return f"import pathlib\n{name} = pathlib.Path({value!r})"
            case "python":
                return f"{name} = __import__('json').loads({plain!r})"
            case "javascript" | "typescript":
                return f"globalThis.{name} = JSON.parse({json.dumps(plain)});"
            case "bash":
                text = value if isinstance(value, str) else plain
                if "\0" in text:
                    raise MagicError("a text with a zero byte cannot be a variable of bash")
                return f"{name}={_quoted(text)}"
            case other:
                raise MagicError(f"variables cannot travel to {other}")

    def _read(self, name: str, value: Value | None, path: str) -> Any:
        try:
            if value is None:
                raise MagicError("the sandbox did not answer with it")
            if value.error is not None:
                raise MagicError(one_line(value.error))
            if value.json is not None:
                return _from_json(value.json)
            if value.table is not None:
                return self._fetch_table(path)
            if value.file is not None:
                return self._download(value.file)
            raise MagicError("the sandbox did not answer with it")
        except MagicError as error:
            raise MagicError(f"-o {name}: {error}") from None

    def _fetch_table(self, path: str) -> Any:
        """Read a table from where it was asked to be, not from where the sandbox says it is."""
        tables.arrow()
        raw = blocking_read_at_most(self._box.files, path, tables.MAX_BYTES)
        if raw is None:
            raise MagicError(f"the table has more than {tables.MAX_BYTES >> 20} MiB")
        self._box.files.remove(path)
        return tables.decode_table(raw)

    def _download(self, path: str) -> Path:
        """Copy a file into a new directory: in the notebook's own it could be imported by name."""
        too_large = MagicError(f"the file is larger than {size(MAX_FILE)}; %sbx get copies it")
        if self._box.files.info(path).size > MAX_FILE:
            raise too_large
        name = PurePosixPath(path).name.lstrip(".") or "file"
        target = Path(tempfile.mkdtemp(prefix="sbx-")) / name
        try:
            # A link may lead to a larger file, or the file may have grown.
            if blocking_download_at_most(self._box.files, path, target, MAX_FILE) is None:
                raise too_large
        except BaseException:
            shutil.rmtree(target.parent, ignore_errors=True)
            raise
        return target


def _as_json(value: Any, *, strict: bool) -> str:
    """A plain value as JSON. Raises ``MagicError`` for others and for one that is too large."""
    if not _is_plain(value, 0):
        raise MagicError(
            f"a {type(value).__name__} cannot travel; plain values, tables, arrays and paths can"
        )
    try:
        text = json.dumps(value, allow_nan=not strict)
    except ValueError:
        raise MagicError("a number that is not finite cannot travel to this language") from None
    if len(text) > MAX_JSON:
        raise MagicError(
            f"it has {size(len(text))} as JSON; up to {size(MAX_JSON)} travel, more as a table"
        )
    return text


def _is_plain(value: Any, depth: int) -> bool:
    if value is None or isinstance(value, bool | int | float | str):
        return True
    if depth > 50:
        return False
    if isinstance(value, list | tuple):
        return all(_is_plain(item, depth + 1) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return all(isinstance(k, str) and _is_plain(v, depth + 1) for k, v in items)
    return False


def _from_json(text: str) -> Any:
    if len(text) > MAX_JSON:
        raise MagicError(f"it has {size(len(text))} as JSON; up to {size(MAX_JSON)} travel")
    try:
        return json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError):
        raise MagicError("what came back is not JSON") from None


def _integer(text: str) -> int | float:
    return int(text) if len(text) < 4000 else math.inf


def _value_of(extra: dict[str, Any] | None) -> Value | None:
    if not extra or MIME not in extra:
        return None
    try:
        return msgspec.convert(extra[MIME], Value)
    except msgspec.ValidationError:
        return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
