"""The ecosystem's own tests of kernels, against one in a sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import jupyter_kernel_test
import pytest

from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engine_process import EngineProcess


@pytest.fixture(scope="module", autouse=True)
def surroundings(
    shared_engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The kernel specification of this checkout, and the engine of the tests."""
    data: Path = tmp_path_factory.mktemp("jupyter")
    (data / "kernels").mkdir()
    (data / "kernels" / "sbx-python3").symlink_to(CHECKOUT / "sbx_jupyter" / "kernel" / "spec")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", os.fspath(data))
        patch.setenv("E2B_API_URL", shared_engine.url)
        patch.setenv("E2B_SANDBOX_URL", shared_engine.url)
        patch.setenv("E2B_API_KEY", shared_engine.key)
        yield


@pytest.mark.filterwarnings("ignore")
class TestSandboxedKernel(jupyter_kernel_test.KernelTests):
    kernel_name = "sbx-python3"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oops', file=sys.stderr)"
    code_page_something = "zip?"
    code_generate_error = "1/0"
    code_execute_result: ClassVar[Any] = [{"code": "6*7", "result": "42"}]
    code_display_data: ClassVar[Any] = [
        {
            "code": "from IPython.display import Image, display; display(Image(b'x'))",
            "mime": "image/png",
        }
    ]
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_history_pattern = "1?2*"
    completion_samples: ClassVar[Any] = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples: ClassVar[Any] = ["1", "def f(): return 1\n\n"]
    incomplete_code_samples: ClassVar[Any] = ["for i in range(3):"]
    invalid_code_samples: ClassVar[Any] = ["import = 7q"]
    # A plain kernel of the same version fails the search, too.
    supported_history_operations: ClassVar[Any] = ("tail",)
