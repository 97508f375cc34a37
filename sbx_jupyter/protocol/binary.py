"""The binary codec: records as Protocol Buffers, with the field numbers of interface 3.4 and 3.5.

Imported only when a client uses this codec: the library takes 30 ms and some megabytes to load.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.message import DecodeError

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol import runtime as rt

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

_PACKAGE: Final = "sbx"
_ENUMS: Final = {
    "FileType": {rt.UNSPECIFIED: 0, rt.FILE: 1, rt.DIRECTORY: 2, "FILE_TYPE_SYMLINK": 3},
    "EventType": {
        "EVENT_TYPE_UNSPECIFIED": 0,
        rt.EVENT_CREATE: 1,
        rt.EVENT_WRITE: 2,
        rt.EVENT_REMOVE: 3,
        rt.EVENT_RENAME: 4,
        rt.EVENT_CHMOD: 5,
    },
    "Signal": {"SIGNAL_UNSPECIFIED": 0, "SIGNAL_SIGKILL": 9, "SIGNAL_SIGTERM": 15},
}

_SELECTED: Final = "process = ProcessSelector 1"
_MESSAGES: Final[dict[type[rt.Message], str]] = {
    # Each field: its name, "=", perhaps "optional", "repeated" or "oneof", its type, its number.
    rt.Empty: "",
    rt.EntryInfo: """
        name = string 1
        type = FileType 2
        path = string 3
        size = int64 4
        mode = uint32 5
        permissions = string 6
        owner = string 7
        group = string 8
        modified_time = Timestamp 9
        symlink_target = optional string 10
        metadata = map 11
        is_symlink = bool 12
    """,
    rt.PathRequest: "path = string 1",
    rt.ListDirRequest: """
        path = string 1
        depth = uint32 2
    """,
    rt.MoveRequest: """
        source = string 1
        destination = string 2
    """,
    rt.EntryResponse: "entry = EntryInfo 1",
    rt.ListDirResponse: "entries = repeated EntryInfo 1",
    rt.WatchDirRequest: """
        path = string 1
        recursive = bool 2
        include_entry = bool 3
        allow_network_mounts = bool 4
    """,
    rt.FilesystemEvent: """
        name = string 1
        type = EventType 2
        entry = optional EntryInfo 3
    """,
    rt.WatchDirResponse: """
        start = oneof Empty 1
        filesystem = oneof FilesystemEvent 2
        keepalive = oneof Empty 3
    """,
    rt.CreateWatcherResponse: "watcher_id = string 1",
    rt.WatcherRequest: "watcher_id = string 1",
    rt.WatcherEventsResponse: "events = repeated FilesystemEvent 1",
    rt.ProcessConfig: """
        cmd = string 1
        args = repeated string 2
        envs = map 3
        cwd = optional string 4
    """,
    rt.PtySize: """
        cols = uint32 1
        rows = uint32 2
    """,
    rt.Pty: "size = PtySize 1",
    rt.ProcessSelector: """
        pid = oneof uint32 1
        tag = oneof string 2
    """,
    rt.ProcessInfo: """
        config = ProcessConfig 1
        pid = uint32 2
        tag = optional string 3
    """,
    rt.ListProcessesResponse: "processes = repeated ProcessInfo 1",
    rt.StartRequest: """
        process = ProcessConfig 1
        pty = optional Pty 2
        tag = optional string 3
        stdin = optional bool 4
    """,
    rt.ConnectRequest: _SELECTED,
    rt.UpdateRequest: f"""
        {_SELECTED}
        pty = optional Pty 2
    """,
    rt.ProcessInput: """
        stdin = oneof bytes 1
        pty = oneof bytes 2
    """,
    rt.SendInputRequest: f"""
        {_SELECTED}
        input = ProcessInput 2
    """,
    rt.SendSignalRequest: f"""
        {_SELECTED}
        signal = Signal 2
    """,
    rt.StreamInputStart: _SELECTED,
    rt.StreamInputData: "input = ProcessInput 2",
    rt.StreamInputRequest: """
        start = oneof StreamInputStart 1
        data = oneof StreamInputData 2
        keepalive = oneof Empty 3
    """,
    rt.StartEvent: "pid = uint32 1",
    rt.DataEvent: """
        stdout = oneof bytes 1
        stderr = oneof bytes 2
        pty = oneof bytes 3
    """,
    rt.EndEvent: """
        exit_code = sint32 1
        exited = bool 2
        status = string 3
        error = optional string 4
    """,
    rt.ProcessEvent: """
        start = oneof StartEvent 1
        data = oneof DataEvent 2
        end = oneof EndEvent 3
        keepalive = oneof Empty 4
    """,
    rt.ProcessEventResponse: "event = ProcessEvent 1",
}
_LENGTH_DELIMITED: Final = 2
"""The wire type of bytes and of messages in others."""
_FIELD: Final = re.compile(r"(\w+) = (?:(optional|repeated|oneof) )?(\w+) (\d+)")

_Proto: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _Proto.TYPE_STRING,
    "bytes": _Proto.TYPE_BYTES,
    "bool": _Proto.TYPE_BOOL,
    "int64": _Proto.TYPE_INT64,
    "uint32": _Proto.TYPE_UINT32,
    "sint32": _Proto.TYPE_SINT32,
}


class _Field(NamedTuple):
    name: str
    modifier: str
    """``optional``, ``repeated``, ``oneof`` or nothing."""
    kind: str
    number: int

    @property
    def is_message(self) -> bool:
        return self.kind not in _SCALARS and self.kind not in _ENUMS


def decode(kind: type[T], raw: bytes) -> T:
    """Decode a request message; raises ``InvalidArgumentError``."""
    message = _new(kind)
    try:
        message.ParseFromString(raw)
        return msgspec.convert(_members(kind.__name__, message), kind)
    except (DecodeError, msgspec.ValidationError) as error:
        raise InvalidArgumentError(f"cannot decode message: {error}") from error


def encode(record: rt.Message) -> bytes:
    """Encode a response message; fields without a number in the interface are left out."""
    message = _new(type(record))
    _fill(message, record)
    return message.SerializeToString()


@lru_cache(maxsize=16)
def output_prefix(kind: str, size: int) -> bytes:
    """The bytes of a message in front of its last member, ``size`` bytes of output.

    The library copies the bytes into each of the three records, at half the speed of base64.
    """
    prefix = b""
    for record, member in (
        (rt.DataEvent, kind),
        (rt.ProcessEvent, "data"),
        (rt.ProcessEventResponse, "event"),
    ):
        tag = _fields(record.__name__)[member].number << 3 | _LENGTH_DELIMITED
        prefix = bytes((tag, *_varint(size + len(prefix)))) + prefix
    return prefix


def _varint(number: int) -> list[int]:
    """Seven bits in each byte, the lowest first; all but the last have the eighth bit."""
    found: list[int] = []
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return [*found, number]


def _members(name: str, message: Any) -> dict[str, Any]:
    """The members of a parsed message that are set, by their names in JSON."""
    found: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        field = _fields(name)[descriptor.name]
        if field.kind == "map":
            value = dict(value)
        elif field.modifier == "repeated":
            value = [_members(field.kind, each) if field.is_message else each for each in value]
        elif field.is_message:
            value = _members(field.kind, value)
        found[descriptor.json_name] = value
    return found


def _fill(message: Any, record: rt.Message) -> None:
    for field in _fields(type(record).__name__).values():
        value = getattr(record, field.name)
        if value is None:
            continue
        if field.kind == "map":
            getattr(message, field.name).update(value)
        elif field.kind == "Timestamp":
            getattr(message, field.name).FromDatetime(value)
        elif field.modifier == "repeated":
            _extend(getattr(message, field.name), value, field)
        elif field.is_message:
            inner = getattr(message, field.name)
            inner.SetInParent()  # so that an empty message is present
            _fill(inner, value)
        elif field.kind in _ENUMS:
            setattr(message, field.name, _ENUMS[field.kind].get(value, 0))
        else:
            setattr(message, field.name, value)


def _extend(target: Any, values: Iterable[Any], field: _Field) -> None:
    if not field.is_message:
        target.extend(values)
        return
    for value in values:
        _fill(target.add(), value)


@cache
def _fields(name: str) -> dict[str, _Field]:
    """The fields of a message by their names."""
    described = next(text for record, text in _MESSAGES.items() if record.__name__ == name)
    return {
        found[1]: _Field(found[1], found[2] or "", found[3], int(found[4]))
        for found in _FIELD.finditer(described)
    }


def _new(record: type[Any]) -> Any:
    return _classes()[f"{_PACKAGE}.{record.__name__}"]()


@cache
def _classes() -> dict[str, Any]:
    """The library's class of each message."""
    file = descriptor_pb2.FileDescriptorProto(
        name="sbx/runtime.proto", package=_PACKAGE, syntax="proto3"
    )
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for record in _MESSAGES:
        _describe(file.message_type.add(name=record.__name__), _fields(record.__name__).values())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return dict(message_factory.GetMessageClassesForFiles([file.name], pool))


def _describe(message: Any, fields: Iterable[_Field]) -> None:
    synthetic: list[str] = []
    for field in fields:
        described = message.field.add(name=field.name, number=field.number)
        is_many = field.modifier == "repeated" or field.kind == "map"
        described.label = _Proto.LABEL_REPEATED if is_many else _Proto.LABEL_OPTIONAL
        if field.kind in _SCALARS:
            described.type = _SCALARS[field.kind]
        elif field.kind in _ENUMS:
            described.type, described.type_name = _Proto.TYPE_ENUM, f".{_PACKAGE}.{field.kind}"
        else:
            described.type, described.type_name = _Proto.TYPE_MESSAGE, _type_name(message, field)
        if field.modifier == "oneof":
            if not message.oneof_decl:
                message.oneof_decl.add(name="member")
            described.oneof_index = 0
        elif field.modifier == "optional" and not field.is_message:
            described.proto3_optional = True
            synthetic.append(field.name)
    # proto3 needs a oneof for each optional scalar, after all declared oneofs.
    for described in message.field:
        if described.name in synthetic:
            described.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{described.name}")


def _type_name(message: Any, field: _Field) -> str:
    if field.kind == "Timestamp":
        return ".google.protobuf.Timestamp"
    if field.kind != "map":
        return f".{_PACKAGE}.{field.kind}"
    entry = message.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(
            name=name, number=number, type=_Proto.TYPE_STRING, label=_Proto.LABEL_OPTIONAL
        )
    return f".{_PACKAGE}.{message.name}.{entry.name}"
