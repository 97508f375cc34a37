"""A template of one's own gives the code interpreter more packages."""

from __future__ import annotations

import io
import zipfile

import pytest

e2b = pytest.importorskip("e2b_code_interpreter")


def small_wheel() -> bytes:
    """A package ``answers`` with one number, as a wheel."""
    buffer = io.BytesIO()
    info = "answers-1.0.dist-info"
    with zipfile.ZipFile(buffer, "w") as wheel:
        wheel.writestr("answers.py", "NUMBER = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: answers\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"answers.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
    return buffer.getvalue()


@pytest.mark.long
def test_a_template_with_packages_gives_them_to_run_code(shared_engine, monkeypatch, tmp_path):
    connection = shared_engine.connection
    for name in ("E2B_API_URL", "E2B_SANDBOX_URL"):
        monkeypatch.setenv(name, connection.url)
    monkeypatch.setenv("E2B_API_KEY", connection.api_key)
    (tmp_path / "answers-1.0-py3-none-any.whl").write_bytes(small_wheel())
    (tmp_path / "Dockerfile").write_text(
        "FROM e2bdev/code-interpreter\nUSER root\nCOPY answers-1.0-py3-none-any.whl /tmp/\n"
        "RUN pip install --no-index /tmp/answers-1.0-py3-none-any.whl\nUSER user\n"
    )
    template = e2b.Template(file_context_path=tmp_path).from_dockerfile(
        str(tmp_path / "Dockerfile")
    )

    e2b.Template.build(template, alias="with-answers", cpu_count=1, memory_mb=512)
    with e2b.Sandbox.create("with-answers", timeout=120) as sandbox:
        execution = sandbox.run_code("import answers\nanswers.NUMBER")

    assert execution.error is None
    assert execution.text == "42"
