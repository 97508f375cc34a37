"""Reads tables and arrays that came out of a sandbox, as Arrow streams that may be hostile.

Nothing is unpickled. A stream is read whole below a limit, message by message; what is compressed,
of an extension type or of a type that can grow when it is read is refused before it is decoded.
"""

from __future__ import annotations

import importlib
import json
import struct
from typing import Any, Final

from sbx_jupyter.errors import see
from sbx_jupyter.magics.errors import MagicError

MAX_BYTES: Final = 256 * 1024 * 1024
MAX_ROWS: Final = 50_000_000
MAX_CELLS: Final = 200_000_000
OLDEST: Final = (14, 0, 1)
"""The first pyarrow without a known way to run code from a file."""

META_KEY: Final = b"sbx"
_RECORD_BATCH: Final = 3
_DICTIONARY_BATCH: Final = 2
_HEADER_TYPE_SLOT: Final = 1
_HEADER_SLOT: Final = 2
_COMPRESSION_SLOT: Final = 3
_DATA_SLOT: Final = 1


def arrow() -> Any:
    """The pyarrow of this kernel. Raises ``MagicError`` if it is missing or too old."""
    try:
        pyarrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.ipc")
    except ImportError:
        raise MagicError(
            "tables and arrays travel with pyarrow, which this kernel has not: "
            f"pip install 'sbx-jupyter[tables]'{see('magics')}"
        ) from None
    version = tuple(int(part) for part in pyarrow.__version__.split(".")[:3] if part.isdigit())
    if version < OLDEST:
        raise MagicError(
            f"pyarrow {pyarrow.__version__} is not safe with untrusted data; "
            f"install {'.'.join(map(str, OLDEST))} or newer{see('magics')}"
        )
    return pyarrow


def encode_table(value: object) -> bytes | None:
    """A data frame, table or array as an Arrow stream; ``None`` for other values."""
    kind = type(value).__module__.partition(".")[0], type(value).__name__
    if kind not in _KINDS:
        return None
    pyarrow = arrow()
    try:
        table = _as_table(pyarrow, kind, value)
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    except pyarrow.ArrowException as error:
        raise MagicError(f"it cannot travel as a table: {error}") from None
    return sink.getvalue().to_pybytes()


_KINDS: Final = {
    ("pandas", "DataFrame"): "frame",
    ("pandas", "Series"): "series",
    ("numpy", "ndarray"): "array",
    ("pyarrow", "Table"): "table",
    ("polars", "DataFrame"): "polars",
}


def _as_table(pyarrow: Any, kind: tuple[str, str], value: Any) -> Any:
    name = _KINDS[kind]
    meta: dict[str, Any] = {"kind": name}
    match name:
        case "frame":
            table = pyarrow.Table.from_pandas(value)
        case "series":
            meta["name"] = None if value.name is None else str(value.name)
            table = pyarrow.Table.from_pandas(value.to_frame("values"))
        case "array":
            if value.dtype.hasobject:
                raise MagicError("an array of Python objects cannot travel; make it a data frame")
            meta |= {"shape": list(value.shape), "dtype": value.dtype.str}
            table = pyarrow.table({"values": pyarrow.array(value.ravel())})
        case "polars":
            table = value.to_arrow()
        case _:
            table = value
    found = dict(table.schema.metadata or {})
    return table.replace_schema_metadata(found | {META_KEY: json.dumps(meta).encode()})


def decode_table(raw: bytes) -> Any:
    """The table, frame or array of an untrusted Arrow stream.

    Raises ``MagicError`` for anything that is not plainly one.
    """
    pyarrow = arrow()
    if len(raw) > MAX_BYTES:
        raise MagicError(f"the table has more than {MAX_BYTES >> 20} MiB")
    try:
        _check_messages(pyarrow, raw)
        with pyarrow.ipc.open_stream(raw) as reader:
            _check_schema(pyarrow, reader.schema)
            table = reader.read_all()
        table.validate(full=True)
        if table.num_rows > MAX_ROWS or table.num_rows * table.num_columns > MAX_CELLS:
            raise MagicError("the table has more rows than a notebook may fetch")
        return _restored(table)
    except MagicError:
        raise
    except (pyarrow.ArrowException, ValueError, TypeError, KeyError, OSError) as error:
        raise MagicError(f"the table that came back is damaged: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _check_messages(pyarrow: Any, raw: bytes) -> None:
    """Refuse compressed messages: how far they grow is the sender's word only."""
    reader = pyarrow.ipc.MessageReader.open_stream(pyarrow.BufferReader(raw))
    for message in reader:
        if is_compressed(message.metadata.to_pybytes()):
            raise MagicError("the table that came back is compressed, which is refused")


def is_compressed(metadata: bytes) -> bool:
    """Whether the flatbuffer of an Arrow message says that its body is compressed."""
    try:
        root = struct.unpack_from("<I", metadata, 0)[0]
        at = _slot(metadata, root, _HEADER_TYPE_SLOT)
        kind = metadata[at] if at else 0
        if kind not in (_RECORD_BATCH, _DICTIONARY_BATCH):
            return False
        batch = _table(metadata, root, _HEADER_SLOT)
        if batch and kind == _DICTIONARY_BATCH:
            batch = _table(metadata, batch, _DATA_SLOT)
        return bool(batch) and bool(_slot(metadata, batch, _COMPRESSION_SLOT))
    except (struct.error, IndexError) as error:
        raise ValueError(f"a message without a header: {error}") from None


def _slot(raw: bytes, table: int, index: int) -> int:
    """Position of a field of a flatbuffer table; 0 for a field that is not there."""
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    if vtable < 0:
        raise IndexError(vtable)
    size = struct.unpack_from("<H", raw, vtable)[0]
    entry = 4 + 2 * index
    if entry + 2 > size:
        return 0
    offset = struct.unpack_from("<H", raw, vtable + entry)[0]
    return table + offset if offset else 0


def _table(raw: bytes, table: int, index: int) -> int:
    """Position of the table to which a field of another one refers; 0 for none."""
    at = _slot(raw, table, index)
    return at + struct.unpack_from("<I", raw, at)[0] if at else 0


def _check_schema(pyarrow: Any, schema: Any) -> None:
    for field in schema:
        _check_field(pyarrow, field)


def _check_field(pyarrow: Any, field: Any) -> None:
    """Refuse extension types, and types whose values can be many times their bytes."""
    kind = field.type
    if isinstance(kind, pyarrow.BaseExtensionType) or b"ARROW:extension:name" in (
        field.metadata or {}
    ):
        raise MagicError("the table that came back has an extension type, which is refused")
    types = pyarrow.types
    if types.is_dictionary(kind):
        _check_field(pyarrow, pyarrow.field("values", kind.value_type))
    elif types.is_list(kind) or types.is_large_list(kind):
        _check_field(pyarrow, kind.value_field)
    elif types.is_struct(kind):
        for index in range(kind.num_fields):
            _check_field(pyarrow, kind.field(index))
    elif not _is_plain(types, kind):
        raise MagicError(f"the table that came back has the type {kind}, which is refused")


def _is_plain(types: Any, kind: Any) -> bool:
    return (
        types.is_primitive(kind)  # numbers, booleans, dates and times
        or types.is_null(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_decimal(kind)
    )


def _restored(table: Any) -> Any:
    """The value of the kind that was sent; a kind unknown here stays a table."""
    found = dict(table.schema.metadata or {})
    meta = json.loads(found.pop(META_KEY, b"{}"))
    table = table.replace_schema_metadata(found)
    match meta.get("kind"):
        case "frame":
            return table.to_pandas()
        case "series":
            name = meta.get("name")
            return table.to_pandas()["values"].rename(name if isinstance(name, str) else None)
        case "array":
            return _array(table, meta)
        case "polars" if (polars := _optional("polars")) is not None:
            return polars.from_arrow(table)
        case _:
            return table


def _array(table: Any, meta: dict[str, Any]) -> Any:
    numpy = importlib.import_module("numpy")
    dtype = numpy.dtype(str(meta["dtype"]))
    if dtype.hasobject:
        raise MagicError("an array of Python objects came back, which is refused")
    shape = [int(length) for length in meta["shape"]]
    values = table.column("values").combine_chunks().to_numpy(zero_copy_only=False)
    return values.astype(dtype, copy=False).reshape(shape)


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
