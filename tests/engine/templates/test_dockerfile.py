"""How Dockerfiles are read: every instruction is carried out, named as left out, or refused."""

from __future__ import annotations

import io
import platform
import tarfile
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.client.templates.build_context import BuildContext
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.dockerfile.steps import parse_dockerfile

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def steps(text: str, **build_args: str) -> list[tuple[str, ...]]:
    """The steps of instructions, without what every Dockerfile begins and ends with."""
    found = parse_dockerfile(f"FROM some\n{text}", build_args).steps
    shown = [(step.type, *(step.args or [])) for step in found]
    assert shown[:2] == [("USER", "root"), ("WORKDIR", "/")]
    end = [("USER", "user"), ("WORKDIR", "/home/user")]
    return [step for step in shown[2:] if step not in end]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # RUN
        ("RUN a && b", [("RUN", "a && b")]),
        ("run\ta", [("RUN", "a")]),
        ("RUN a \\\n  b \\\n  # no part of it\n\n  c", [("RUN", "a   b   c")]),
        ("RUN echo one\\\ntwo", [("RUN", "echo onetwo")]),
        ("RUN echo 'a\tb'", [("RUN", "echo 'a\tb'")]),
        ('RUN ["sh", "-c", "a \'b\'"]', [("RUN", "sh -c 'a '\"'\"'b'\"'\"''")]),
        ("RUN [ -e /x ]", [("RUN", "[ -e /x ]")]),
        ("RUN <<EOF\na\nb $C\nEOF", [("RUN", "a\nb $C\n")]),
        ("RUN cat <<A <<-'B' > x\n1\nA\n\t2\n\tB\nRUN b",
         [("RUN", "cat <<A <<-'B' > x\n1\nA\n\t2\n\tB\n"), ("RUN", "b")]),
        ("RUN cat <<<EOF; echo $((1<<2))", [("RUN", "cat <<<EOF; echo $((1<<2))")]),
        ('SHELL ["bash", "-ec"]\nRUN a b', [("RUN", "bash -ec 'a b'")]),
        # ENV and ARG
        ("ENV A=1 B='two words' C=\"$A\" D=a\\ b",
         [("ENV", "A", "1"), ("ENV", "B", "two words"), ("ENV", "C", "1"), ("ENV", "D", "a b")]),
        ("ENV A two 'words'", [("ENV", "A", "two words")]),
        ("ENV A='$B' C=\\$D", [("ENV", "A", "\\$B"), ("ENV", "C", "\\$D")]),
        ("ENV PATH=/opt:$PATH X=${Y:-z}",
         [("ENV", "PATH", "/opt:${PATH}"), ("ENV", "X", "${Y:-z}")]),
        ("ARG V=1\nENV A=v$V B=${V:+set} C=${V:-no}\nARG W=\nENV D=${W-w}${W:-x}",
         [("ENV", "A", "v1"), ("ENV", "B", "set"), ("ENV", "C", "1"), ("ENV", "D", "x")]),
        ("ARG V=1\nRUN a\nENV V=2\nRUN b",
         [("RUN", "export V=1\na"), ("ENV", "V", "2"), ("RUN", "b")]),
        ("ARG V='a b'\nRUN a", [("RUN", "export V='a b'\na")]),
        ("ARG V\nRUN a", [("RUN", "a")]),
        ("ARG TARGETARCH\nWORKDIR /$TARGETARCH", [("WORKDIR", f"/{MACHINE}")]),
        # COPY and ADD
        ("COPY a /b", [("COPY", "a", "/b", "", "")]),
        ("ADD ./a b ./c/", [("COPY", "./a", "./c/", "", ""), ("COPY", "b", "./c/", "", "")]),
        ("COPY --chown=u:g --chmod=755 --link a b", [("COPY", "a", "b", "u:g", "755")]),
        ('COPY ["a b", "c d"]', [("COPY", "a b", "c d", "", "")]),
        ("ENV D=/dst\nARG S=src\nCOPY $S ${D}/x",
         [("ENV", "D", "/dst"), ("COPY", "src", "/dst/x", "", "")]),
        ("COPY / /b", [("COPY", ".", "/b", "", "")]),
        # the others
        ("ENV A=/a\nWORKDIR $A/b\nWORKDIR c", [("ENV", "A", "/a"), ("WORKDIR", "/a/b"),
                                                ("WORKDIR", "c")]),
        ("USER worker\nUSER root:root\nUSER 0:0\nUSER w:w",
         [("USER", "worker"), ("USER", "root"), ("USER", "root"), ("USER", "w")]),
        ("VOLUME /a /b\nVOLUME [\"/c d\"]",
         [("RUN", "mkdir -p /a /b", "root"), ("RUN", "mkdir -p '/c d'", "root")]),
    ],
)  # fmt: skip
def test_an_instruction_becomes_steps(text: str, expected: list[tuple[str, ...]]) -> None:
    assert steps(text) == expected


def test_arguments_from_outside_go_before_those_of_the_file() -> None:
    text = "ARG BASE=one\nARG TAG\nFROM $BASE:${TAG:-t} AS stage\nARG BASE\nARG OTHER=o\n"
    found = parse_dockerfile(text + "RUN a")
    assert (found.image, found.steps[2].args) == ("one:t", ["export BASE=one OTHER=o\na"])
    assert parse_dockerfile(text, {"BASE": "two", "TAG": "x"}).image == "two:x"
    with pytest.raises(InvalidArgumentError, match="there is no ARG ELSE"):
        parse_dockerfile(text, {"ELSE": "1"})


def test_the_file_may_name_another_escape_character() -> None:
    text = "# syntax=any\n# escape=`\nFROM some\nRUN a `\n  b\\\nRUN c"
    assert [step.args for step in parse_dockerfile(text).steps[2:4]] == [["a   b\\"], ["c"]]


def test_files_may_stand_in_the_dockerfile() -> None:
    found = parse_dockerfile(
        "FROM some\nENV A=1\nCOPY <<one <<-'two' /dir/\n$A \\$A \"q\"\none\n\t$A\n\ttwo\n"
        "COPY <<EOF /file\nEOF\n"
    )
    copies = [step.args for step in found.steps if step.type == "COPY"]
    assert copies == [
        [".sbx-inline/0/one", "/dir/", "", ""],
        [".sbx-inline/1/two", "/dir/", "", ""],
        [".sbx-inline/2/EOF", "/file", "", ""],
    ]
    assert list(found.inline.values()) == [b'1 $A "q"\n', b"$A\n", b""]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("CMD serve $PORT", "serve $PORT"),
        ('CMD ["serve", "a b"]', "serve 'a b'"),
        ('CMD ["first"]\nCMD second', "second"),
        ('ENTRYPOINT ["python", "-m"]\nCMD ["http.server"]', "python -m http.server"),
        ('CMD ["http.server"]\nENTRYPOINT ["python", "-m"]', "python -m http.server"),
        ('CMD a b\nENTRYPOINT ["run"]', "run /bin/sh -c 'a b'"),
        ("ENTRYPOINT run it\nCMD [\"not\"]", "run it"),
        ('SHELL ["bash", "-c"]\nCMD a b', "bash -c 'a b'"),
        ("CMD []", None),
        ("RUN true", None),
    ],
)  # fmt: skip
def test_cmd_and_entrypoint_become_the_start_command(text: str, start: str | None) -> None:
    found = parse_dockerfile(f"FROM some\n{text}")
    assert (found.start_command, found.ready_command) == (start, None)


def test_a_health_check_becomes_the_ready_command() -> None:
    check = "HEALTHCHECK --interval=5s --retries=3 CMD curl -f http://localhost/ || exit 1"
    assert parse_dockerfile(f"FROM some\n{check}\nCMD a").ready_command == (
        "curl -f http://localhost/ || exit 1"
    )
    listed = 'HEALTHCHECK CMD ["test", "-e", "/a b"]'
    assert parse_dockerfile(f"FROM s\nCMD a\n{listed}").ready_command == "test -e '/a b'"
    for text in (check, f"{check}\nHEALTHCHECK NONE\nCMD a"):
        assert parse_dockerfile(f"FROM some\n{text}").ready_command is None


def test_what_means_nothing_for_a_template_is_named() -> None:
    found = parse_dockerfile("FROM some\nEXPOSE 80\nLABEL a=b\nMAINTAINER me\nSTOPSIGNAL 9")
    assert [text.partition(":")[0] for text in found.left_out] == [
        "line 2", "line 3", "line 4", "line 5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("RUN true", "line 1: RUN before FROM"),
        ("", "there is no FROM"),
        ("FROM a\nFROM b", "line 2: a template is built of one stage"),
        ("FROM a b", "line 1: FROM takes an image"),
        ("FROM scratch", "line 1: FROM needs an image"),
        ("FROM $NOTHING", "line 1: FROM needs an image"),
        ("FROM --platform=linux/s390x a", "line 1: this machine runs"),
        ("FROM --other a", "line 1: --other is not supported"),
        ("FROM a\n\n# no\nFLY away", "line 4: unknown instruction FLY"),
        ("FROM a\nRUN", "line 2: RUN says nothing"),
        ("FROM a\nRUN \\\n\n--mount=type=cache x", "line 2: --mount=type=cache of RUN"),
        ("FROM a\nRUN --network=none x", "line 2: --network=none of RUN"),
        ("FROM a\nRUN <<EOF\nx", "line 2: the here-document 'EOF' has no end"),
        ("FROM a\nCOPY --from=b x y", "line 2: --from is not supported"),
        ("FROM a\nCOPY --exclude=x x y", "line 2: --exclude is not supported"),
        ("FROM a\nCOPY --chmod=u+x x y", "line 2: --chmod=u.x is not supported"),
        ("FROM a\nCOPY x", "line 2: COPY needs a source"),
        ("FROM a\nCOPY x y z", "line 2: the destination of several sources"),
        ("FROM a\nCOPY */x y", "line 2: '\\*/x': only the last part may be a pattern"),
        ("FROM a\nCOPY 'x y", "line 2: a quote has no end|line 2: COPY needs"),
        ("FROM a\nADD https://a/b c", "line 2: ADD of an address"),
        ("FROM a\nADD git@a:b c", "line 2: ADD of an address"),
        ("FROM a\nADD --checksum=x b c", "line 2: --checksum is not supported"),
        ("FROM a\nENV A", "line 2: 'A' is not NAME=VALUE"),
        ("FROM a\nENV A=1 B", "line 2: 'B' is not NAME=VALUE"),
        ("FROM a\nENV 1A=1", "line 2: '1A' cannot be the name"),
        ("FROM a\nENV A=${B#c}", "line 2: '\\${B#c}' of a variable of the image"),
        ("FROM a\nARG A=1\nENV A=${A#c}", "line 3: '\\${A#c}' is not supported"),
        ("FROM a\nENV A=${A", "line 2: a brace has no end"),
        ("FROM a\nARG 1=2", "line 2: '1' cannot be the name"),
        ("FROM a\nWORKDIR $HOME/x", "line 2: the value of \\$HOME is known to the image only"),
        ("FROM a\nENV A=$B\nWORKDIR $A", "line 3: the value of \\$A is known to the image only"),
        ("FROM a\nARG A\nWORKDIR ${A:?is missing}", "line 3: A: is missing"),
        ("FROM a\nUSER 1000", "line 2: USER takes a name"),
        ("FROM a\nUSER a:b", "line 2: a group other"),
        ("FROM a\nSHELL bash", "line 2: SHELL takes a list"),
        ("FROM a\nHEALTHCHECK curl", "line 2: HEALTHCHECK takes CMD"),
        ("FROM a\nHEALTHCHECK --other=1 CMD x", "line 2: --other is not supported"),
        ("FROM a\nONBUILD RUN x", "line 2: ONBUILD is not supported"),
        ("# escape=x\nFROM a", "line 1: the escape character"),
    ],
)
def test_what_cannot_be_built_is_said_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        parse_dockerfile(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "b.bin", "deep/a.txt", "deep/er/b.txt", "deep/er/c.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    with tarfile.open(tmp_path / "archive", "w:xz") as tar:
        tar.addfile(tarfile.TarInfo("x"), io.BytesIO())
    return tmp_path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("COPY missing /x", "line 2: 'missing' is not in"),
        ("COPY ../up /x", "line 2: '../up' is outside of the build context"),
        ("ADD archive /x", "line 2: ADD does not unpack archive"),
        ("COPY d* /x/", r"line 2: 'd\*' means the directory deep"),
    ],
)
def test_files_that_cannot_be_copied_are_refused_before_the_build(
    folder: Path, text: str, reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        parse_dockerfile(f"FROM a\n{text}", files=BuildContext(folder))


def test_an_archive_is_copied_and_a_plain_file_added(folder: Path) -> None:
    text = "FROM a\nCOPY archive /x\nADD a.txt /x\nCOPY *.txt deep /x/"
    parse_dockerfile(text, files=BuildContext(folder))


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ("", "a.txt archive b.bin b.txt deep deep/a.txt deep/er deep/er/b.txt deep/er/c.bin"),
        ("*.txt", "archive b.bin deep deep/a.txt deep/er deep/er/b.txt deep/er/c.bin"),
        ("**/*.txt\n", "archive b.bin deep deep/er deep/er/c.bin"),
        ("*\n!deep/er", "deep/er deep/er/b.txt deep/er/c.bin"),
        ("# all\n\n/deep/\n./b.*", "a.txt archive"),
        ("deep/*/?.txt", "a.txt archive b.bin b.txt deep deep/a.txt deep/er deep/er/c.bin"),
        ("**/er", "a.txt archive b.bin b.txt deep deep/a.txt"),
        ("[a-b].txt\ndeep", "archive b.bin"),
        ("**", ""),
        (".", ""),
    ],
)
def test_files_are_left_out_by_the_rules_of_docker(folder: Path, patterns: str, kept: str) -> None:
    (folder / ".dockerignore").write_text(patterns)
    if not kept:
        with pytest.raises(InvalidArgumentError, match="is not in"):
            BuildContext(folder).find(".")
        return
    assert set(BuildContext(folder).find(".")) - {".dockerignore"} == set(kept.split())


def test_a_dockerfile_may_have_patterns_of_its_own(folder: Path) -> None:
    own = folder / "Dockerfile.dockerignore"
    own.write_text("deep\narchive\n*.dockerignore")
    (folder / ".dockerignore").write_text("*")
    assert BuildContext(folder, ignore_file=own).find("b*") == ["b.bin", "b.txt"]
