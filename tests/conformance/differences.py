"""What clients see otherwise where the kernel gives a sandbox less, by kind of engine.

Each entry is a test that must fail there, with the line that says why: docs/tiers.md says the same.
"""

from __future__ import annotations

from typing import Final

from tests.tiers.rows import LANDLOCK, NONE, ONE

_PLACE: Final = "one directory in place of a root file system, so that paths begin with its own"
_ONE_ID: Final = "sandboxes have one id, whose name every file has"
_PROC: Final = "programs cannot look at processes below /proc"
_SESSION: Final = "processes have the numbers of the machine"
_NAME: Final = "the host name is that of the machine, which the proxy refuses"

_PATHS: Final = dict.fromkeys(
    (
        "exact/test_calls.py::test_listed_and_watched_paths_are_cleaned",
        "exact/test_files.py::test_unusual_forms_are_read",
        "exact/test_files.py::test_a_file_name_in_another_alphabet_is_decoded",
        "test_binary_codec.py::test_entries_are_made_listed_described_and_removed",
        "test_binary_codec.py::test_a_watch_tells_of_changes_with_their_entries",
        "test_code_interpreter.py::test_it_runs_as_user_at_home",
        "test_code_interpreter.py::test_imported_names_stay_and_may_be_imported_again",
        "test_javascript.py::test_the_javascript_clients_pass[files]",
        "test_javascript.py::test_the_javascript_clients_pass[commands]",
        "test_javascript.py::test_the_javascript_client_builds_templates",
        "test_python_commands.py::test_users_and_directories_are_obeyed",
        "test_python_files.py::test_text_comes_back_as_written",
        "test_python_files.py::test_several_files_are_written_at_once",
        "test_python_files.py::test_a_listing_goes_as_deep_as_asked",
        "test_python_files.py::test_an_entry_tells_owner_mode_and_link",
    ),
    _PLACE,
)

DIFFERENCES: Final[dict[str | None, dict[str, str]]] = {
    ONE: {
        "test_javascript.py::test_the_javascript_clients_pass[files]": _ONE_ID,
        "test_javascript.py::test_the_javascript_client_builds_templates": _ONE_ID,
        "test_python_files.py::test_an_entry_tells_owner_mode_and_link": _ONE_ID,
    },
    LANDLOCK: {
        **_PATHS,
        "exact/test_calls.py::test_for_want_of_memory_programs_are_killed": _PROC,
        "exact/test_calls.py::test_a_process_on_pipes_has_no_session_of_its_own": _PROC,
        "exact/test_calls.py::test_what_is_local_does_not_go_through_the_proxy": _NAME,
        "test_code_interpreter.py::test_a_sandbox_that_is_killed_before_its_kernel_answers": _PROC,
        "test_python_files.py::test_files_written_as_root_belong_to_root": _ONE_ID,
    },
    NONE: {
        **_PATHS,
        "exact/test_calls.py::test_a_process_on_pipes_has_no_session_of_its_own": _SESSION,
        "test_python_files.py::test_files_written_as_root_belong_to_root": _ONE_ID,
    },
}
"""Beginnings of the names of tests."""


def difference_of(kind: str | None, name: str) -> str | None:
    """Why a test cannot pass with a kind of engine; ``None`` if it must pass."""
    known = DIFFERENCES.get(kind, {})
    return next((why for start, why in known.items() if name.startswith(start)), None)
