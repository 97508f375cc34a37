"""What is left of a sandboxed kernel's messages; the whole of what it may send is listed here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.kernel.guest.backlog import smaller
from sbx_jupyter.kernel.guest.frames import CHANNELS, MAX_MESSAGE, pack, unpack
from sbx_jupyter.kernel.messages import (
    DELIMITER,
    ForgedMessageError,
    Signer,
    from_guest,
    to_guest,
)

OURS, THEIRS = Signer(b"ours"), Signer(b"theirs")


def message(kind: str, content: dict[str, Any], signer: Signer = THEIRS) -> list[bytes]:
    parts = [json.dumps(part).encode() for part in ({"msg_type": kind}, {}, {"x": 1}, content)]
    return [b"peer", DELIMITER, signer.sign(parts), *parts, b"a buffer"]


def kept(channel: str, kind: str, content: dict[str, Any]) -> dict[str, Any] | None:
    """The content that is left, after a check of everything around it."""
    found = from_guest(channel, message(kind, content), THEIRS, OURS)
    if found is None:
        return None
    identities, parts, buffers = OURS.split(found)
    assert (identities, buffers) == ([b"peer"], [])
    assert json.loads(parts[2]) == {}
    return json.loads(parts[3])


def carried(kind: str, content: dict[str, Any]) -> dict[str, Any] | None:
    """What is inside the message that carries a comm's, after a check of everything around it."""
    found = from_guest("iopub", message(kind, content), THEIRS, OURS)
    if found is None:
        return None
    _, parts, buffers = OURS.split(found)
    assert buffers == [b"a buffer"]
    assert json.loads(parts[0])["msg_type"] == "comm_msg"
    outer = json.loads(parts[3])
    assert outer.pop("comm_id") == "sbx-jupyter:widgets"
    assert set(outer) == {"data"}
    # What nbclient would keep in the notebook, and front ends would load the code of.
    assert not {"state", "buffer_paths", "method"} & set(outer["data"])
    return outer["data"]


def test_unknown_messages_are_not_passed_on_and_comms_on_no_other_channel():
    assert kept("iopub", "made_up", {}) is None
    for channel in ("shell", "control", "stdin"):
        for kind in ("comm_open", "comm_msg", "comm_close", "made_up"):
            assert kept(channel, kind, {"comm_id": "a", "data": {}}) is None


def test_comms_of_widgets_travel_where_no_front_end_acts_on_them():
    opened = {
        "comm_id": "a1",
        "target_name": "jupyter.widget",
        "target_module": "evil",
        "data": {"state": {"_esm": "alert(1)"}, "buffer_paths": []},
    }
    assert carried("comm_open", opened) == {
        "kind": "comm_open",
        "comm_id": "a1",
        "message": {"state": {"_esm": "alert(1)"}, "buffer_paths": []},
    }
    update = {"method": "update", "state": {"value": 1}, "buffer_paths": [["value"]]}
    assert carried("comm_msg", {"comm_id": "a1", "data": update, "x": 1}) == {
        "kind": "comm_msg",
        "comm_id": "a1",
        "message": update,
    }
    assert carried("comm_close", {"comm_id": "a1", "data": {"x": 1}}) == {
        "kind": "comm_close",
        "comm_id": "a1",
    }


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("comm_open", {"comm_id": "a", "target_name": "sbx-jupyter:notebook", "data": {}}),
        ("comm_open", {"comm_id": "a", "target_name": "jupyter.widget", "data": 7}),
        ("comm_open", {"comm_id": "sbx-jupyter:widgets", "target_name": "jupyter.widget"}),
        ("comm_msg", {"comm_id": "a", "data": {"method": "request_states"}}),
        ("comm_msg", {"comm_id": "a" * 65, "data": {"method": "update"}}),
        ("comm_msg", {"comm_id": ["a"], "data": {"method": "update"}}),
        ("comm_close", {}),
    ],
)
def test_comms_that_are_not_a_widgets_are_not_passed_on(kind: str, content: dict[str, Any]):
    assert carried(kind, content) is None


def test_a_message_on_the_wrong_channel_is_not_passed_on():
    assert kept("shell", "display_data", {"data": {"text/plain": "x"}}) is None
    assert kept("iopub", "execute_reply", {"status": "ok"}) is None


@pytest.mark.parametrize("kind", ["display_data", "execute_result", "update_display_data"])
@pytest.mark.parametrize(
    ("mime", "value"),
    [
        ("text/html", "<script>parent.postMessage(1)</script>"),
        ("application/javascript", "alert(1)"),
        ("image/svg+xml", "<svg onload='alert(1)'/>"),
        ("text/markdown", "<img src=x onerror=alert(1)>"),
        ("text/html", ["<img src=x ", "onerror=alert(1)>"]),
    ],
)
def test_active_results_come_in_frames_or_as_text(kind: str, mime: str, value: Any):
    shown = kept("iopub", kind, {"data": {"text/plain": "x", mime: value}, "metadata": {mime: {}}})
    assert shown is not None
    assert set(shown["data"]) == {"text/plain", "text/html"}
    html = shown["data"]["text/html"]
    assert "<script" not in html
    assert "<svg" not in html
    assert "<img src=x" not in html
    if html.startswith("<iframe"):
        assert 'sandbox="allow-scripts"' in html
    assert shown["metadata"] == {}


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ({"model_id": "ab-1"}, {"application/vnd.sbx.widget-view+json": {"model_id": "ab-1"}}),
        ({"model_id": "<b>"}, {}),
        ({"model_id": 1}, {}),
        ("x", {}),
    ],
)
def test_views_of_widgets_have_a_type_that_others_do_not_draw(found: Any, left: dict[str, Any]):
    widget = {"application/vnd.jupyter.widget-view+json": found, "text/html": "<b>"}
    shown = kept("iopub", "display_data", {"data": {**widget, "text/plain": "IntSlider()"}})
    assert shown is not None
    assert shown["data"] == {"text/plain": "IntSlider()", **left}
    bare = kept("iopub", "display_data", {"data": widget})
    assert bare is not None
    assert bare["data"]["text/plain"] == "[a widget]"


def test_unknown_formats_are_told_and_not_drawn():
    strange = kept("iopub", "display_data", {"data": {"application/vnd.other+json": {}}})
    assert strange is not None
    assert set(strange["data"]) == {"text/plain"}


def test_pictures_keep_their_size_and_results_their_number():
    content = {
        "data": {"image/png": "aGk="},
        "metadata": {"image/png": {"width": 5, "onload": "x"}, "isolated": True},
        "execution_count": 3,
        "transient": {"display_id": "d", "other": 1},
    }
    shown = kept("iopub", "execute_result", content)
    assert shown is not None
    assert shown["data"]["image/png"] == "aGk="
    assert shown["metadata"] == {"image/png": {"width": 5}}
    assert (shown["execution_count"], shown["transient"]) == (3, {"display_id": "d"})


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({"prompt": "Name: ", "password": False}, {"prompt": "Name: ", "password": False}),
        (
            {"prompt": {"a": 1}, "password": "yes", "x": 1},
            {"prompt": "{'a': 1}", "password": False},
        ),
        ({"prompt": "x" * 100_000, "password": True}, {"prompt": "x" * 10_000, "password": True}),
        ({"prompt": "a\x1b]0;title\x07b"}, {"prompt": "a\ufffdb", "password": False}),
    ],
)
def test_a_question_is_a_text_of_limited_length(asked: dict[str, Any], left: dict[str, Any]):
    assert kept("stdin", "input_request", asked) == left


def test_help_is_text():
    data = {"text/plain": "doc", "text/html": "<script>1</script>"}
    found = kept("shell", "inspect_reply", {"status": "ok", "found": True, "data": data})
    assert found is not None
    assert found["data"] == {"text/plain": "doc"}


def test_a_variable_that_the_debugger_draws_cannot_act():
    data = {"text/html": "<img src=x onerror=alert(1)>", "application/javascript": "alert(1)"}
    body = {"data": data, "metadata": {"text/html": {"isolated": False}}}
    inspected = {"type": "response", "command": "richInspectVariables", "success": True}
    shown = kept("control", "debug_reply", inspected | {"body": body})
    assert shown is not None
    assert set(shown["body"]["data"]) == {"text/plain", "text/html"}
    assert shown["body"]["data"]["text/html"].startswith("<iframe")
    assert shown["body"]["metadata"] == {}
    for other in ({"variables": [{"name": "a"}]}, [], None):
        reply = inspected | {"body": other}
        assert kept("control", "debug_reply", reply) == reply
    broken = kept("control", "debug_reply", inspected | {"body": {"data": "<b>"}})
    assert broken is not None
    assert broken["body"] == {"data": {}, "metadata": {}}


def test_a_language_names_no_exporter_and_has_no_markup():
    usual = {
        "name": "python",
        "version": "3.14.0+",
        "mimetype": "text/x-python",
        "file_extension": ".py",
        "pygments_lexer": "ipython3",
        "codemirror_mode": {"name": "ipython", "version": 3},
    }
    markup = "x'><script>alert(1)</script>"
    for channel in ("shell", "control"):
        for language, left in (
            (usual | {"nbconvert_exporter": "os.path", "x": 1}, usual),
            ({"name": markup, "pygments_lexer": markup, "codemirror_mode": {"name": markup}}, {}),
            ({"codemirror_mode": {"name": {"name": "x"}}, "version": ["1"]}, {}),
        ):
            info = kept(channel, "kernel_info_reply", {"language_info": language})
            assert info is not None
            assert info["language_info"] == left


def test_payloads_are_text_and_unknown_ones_are_left_out():
    payload = [
        {"source": "page", "data": {"text/plain": "p", "text/html": "<b>"}},
        {"source": "set_next_input", "text": "x = 1", "replace": True},
        {"source": "ask_exit"},
        {"source": "edit_magic", "filename": "/etc/passwd"},
        7,
    ]
    expressions = {"a": {"status": "ok", "data": {"text/plain": "1", "text/html": "<b>"}}, "b": 2}
    reply = kept("shell", "execute_reply", {"payload": payload, "user_expressions": expressions})
    assert reply is not None
    assert reply["payload"] == [
        {"source": "page", "start": 0, "data": {"text/plain": "p"}},
        {"source": "set_next_input", "text": "x = 1", "replace": True},
    ]
    assert reply["user_expressions"]["a"]["data"] == {"text/plain": "1"}
    assert reply["user_expressions"]["b"] == {}


def test_links_for_the_menu_and_comms_are_left_out():
    links = [{"text": "x", "url": "javascript:alert(1)"}]
    for channel in ("shell", "control"):
        info = kept(channel, "kernel_info_reply", {"help_links": links, "banner": "b"})
        assert info is not None
        assert (info["help_links"], info["banner"]) == ([], "b")
    assert kept("shell", "comm_info_reply", {"comms": {"1": {}}}) == {"status": "ok", "comms": {}}


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"x"],
        [DELIMITER],
        [DELIMITER, b"", b"{}", b"{}", b"{}", b"{}"],
        message("status", {}, Signer(b"other")),
        message("status", {})[:-3],
    ],
)
def test_a_message_that_the_kernel_did_not_sign_is_refused(frames: list[bytes]):
    with pytest.raises(ForgedMessageError):
        from_guest("iopub", frames, THEIRS, OURS)


def test_a_message_for_the_kernel_is_signed_with_its_own_key():
    sent = to_guest(message("execute_request", {"code": "1"}, OURS), OURS, THEIRS)
    identities, parts, buffers = THEIRS.split(sent)
    assert (identities, buffers) == ([b"peer"], [b"a buffer"])
    assert json.loads(parts[3]) == {"code": "1"}
    with pytest.raises(ForgedMessageError):
        to_guest(message("execute_request", {}, THEIRS), OURS, THEIRS)


def test_a_message_that_comes_twice_is_not_the_same_twice():
    frames = message("stream", {"name": "stdout", "text": "x"})

    first, second = (from_guest("iopub", frames, THEIRS, OURS) for _ in range(2))

    assert first is not None
    assert second is not None
    assert first[2] != second[2]  # receivers refuse a signature that they have seen


@pytest.mark.parametrize(
    ("kind", "content", "left"),
    [
        ("stream", {"text": {"a": 1}}, {"name": "stdout", "text": "{'a': 1}"}),
        ("stream", {"name": "other", "text": ["a", 1]}, {"name": "stdout", "text": "a1"}),
        ("error", {"traceback": [1]}, {"ename": "", "evalue": "", "traceback": ["1"]}),
        ("status", {"execution_state": "idle", "x": 1}, {"execution_state": "idle"}),
        ("status", {"execution_state": {}}, None),
        ("execute_input", {"execution_count": "1"}, {"code": "", "execution_count": 0}),
        ("clear_output", {"wait": "yes"}, {"wait": False}),
    ],
)
def test_fields_have_the_types_that_front_ends_rely_on(
    kind: str, content: dict[str, Any], left: dict[str, Any] | None
):
    assert kept("iopub", kind, content) == left


@pytest.mark.parametrize("parent", [b"[]", b"1", b'"x"', b"null", b"{"])
def test_a_parent_header_that_is_no_object_is_forged(parent: bytes):
    parts = [b'{"msg_type": "stream"}', parent, b"{}", b'{"name": "stdout", "text": ""}']

    with pytest.raises(ForgedMessageError):
        from_guest("iopub", [DELIMITER, THEIRS.sign(parts), *parts], THEIRS, OURS)


def test_halves_of_characters_are_passed_on():
    assert kept("iopub", "stream", {"name": "stdout", "text": "\ud800"}) == {
        "name": "stdout",
        "text": "\ud800",
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("identities", "parent"),
    [([b"peer"], {"msg_id": "x" * 5000}), ([b"x" * 2000], {}), ([b""] * 2000, {})],
)
@pytest.mark.parametrize("kind", ["stream", "comm_msg", "execute_reply"])
def test_what_is_passed_on_as_it_is_has_a_size(
    kind: str, identities: list[bytes], parent: dict[str, str]
):
    parts = [json.dumps(part).encode() for part in ({"msg_type": kind}, parent, {}, {})]
    frames = [*identities, DELIMITER, THEIRS.sign(parts), *parts]
    with pytest.raises(ForgedMessageError):
        from_guest("shell" if kind == "execute_reply" else "iopub", frames, THEIRS, OURS)


KINDS = st.sampled_from(
    ["display_data", "execute_result", "execute_reply", "inspect_reply", "kernel_info_reply"]
)
FIELDS = st.sampled_from(
    ["data", "metadata", "payload", "user_expressions", "transient", "execution_count"]
)
BUNDLE = st.dictionaries(
    st.sampled_from(["text/plain", "text/html", "image/png", "application/json", "text/latex"]),
    JSON,
)


# A busy machine makes the generation slow.
@given(st.sampled_from(CHANNELS[:4]), KINDS, st.dictionaries(FIELDS, JSON | BUNDLE))
def test_no_content_breaks_the_check(channel: str, kind: str, content: dict[str, Any]):
    from_guest(channel, message(kind, content), THEIRS, OURS)


@given(st.integers(0, len(CHANNELS) - 1), st.lists(st.binary()))
def test_frames_survive_the_way(channel: int, frames: list[bytes]):
    assert unpack(pack(channel, frames)) == (channel, frames)


@given(st.binary())
def test_bytes_that_are_no_message_are_refused(raw: bytes):
    try:
        channel, frames = unpack(raw)
    except ValueError:
        return
    assert pack(channel, frames) == raw


def large(kind: str, content: dict[str, Any]) -> list[list[bytes]]:
    """The messages that the guest sends instead of one that is too large."""
    header = {"msg_type": kind, "msg_id": "m"}
    parts = [json.dumps(part).encode() for part in (header, {"msg_id": "asked"}, {}, content)]
    return list(smaller([b"stream", DELIMITER, THEIRS.sign(parts), *parts], b"theirs"))


def test_printed_text_that_is_too_large_for_a_message_comes_in_several():
    text = "\0é\ud83d" * (3 * 1024**2)

    sent = large("stream", {"name": "stdout", "text": text})

    assert max(sum(map(len, each)) for each in sent) <= MAX_MESSAGE
    found = [OURS.split(from_guest("iopub", each, THEIRS, OURS) or [])[1] for each in sent]
    assert len({parts[0] for parts in found}) == len(found)
    assert {json.loads(parts[1])["msg_id"] for parts in found} == {"asked"}
    assert "".join(json.loads(parts[3])["text"] for parts in found) == text


def test_a_result_that_is_too_large_for_a_message_is_told():
    [sent] = large("display_data", {"data": {"text/plain": "x" * (40 * 1024**2)}})

    _, parts, _ = OURS.split(from_guest("iopub", sent, THEIRS, OURS) or [])
    assert json.loads(parts[0])["msg_type"] == "stream"
    assert json.loads(parts[3]) == {
        "name": "stderr",
        "text": "[cut: 40 MiB of output at once are left out]\n",
    }
