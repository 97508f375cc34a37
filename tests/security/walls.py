"""Which tests try which class of attack, in which tiers: the table of ``docs/security-tests.md``.

``python -m tests.security.walls`` prints it. Rows of ``test_siege.py`` are named by their attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ROOT: Final = "root"
SUBORDINATE: Final = "subordinate ids"
ONE_ID: Final = "one id"
LANDLOCK: Final = "Landlock"
NAMESPACES: Final = (ROOT, SUBORDINATE, ONE_ID)
TIERS: Final = (*NAMESPACES, LANDLOCK)
SIEGE_NAMES: Final = {
    "namespaces-root": ROOT,
    "namespaces-subordinate": SUBORDINATE,
    "namespaces-user": ONE_ID,
    "landlock": LANDLOCK,
}
"""The tiers by the names that ``tests.security.attacks`` gives them."""


@dataclass(frozen=True)
class Tried:
    """Tests of one file, or attacks of the siege, and the tiers in which they run."""

    where: str
    """A file below ``tests``."""
    names: tuple[str, ...]
    """Functions; for the siege, attacks."""
    tiers: tuple[str, ...] = ()
    """Empty for what does not depend on the tier."""


@dataclass(frozen=True)
class Wall:
    """One class of attack."""

    attack: str
    tried: tuple[Tried, ...]
    needed: tuple[str, ...] = ()
    """The tiers in which it must be tried; empty for what does not depend on the tier."""
    open_in: str = ""
    """What the threat model says is open, and where."""


def _siege(*names: str, tiers: tuple[str, ...] = TIERS) -> Tried:
    return Tried("security/test_siege.py", names, tiers)


WALLS: Final = (
    Wall(
        "content of templates, snapshots, volumes and writable layers steers the set-up",
        (
            Tried(
                "security/test_hostile_content.py",
                (
                    "test_nothing_is_made_outside",
                    "test_a_mount_through_a_link_is_refused_and_leaves_nothing",
                    "test_a_template_whose_places_to_mount_at_are_links_is_refused",
                    "test_a_sandbox_starts_wherever_its_etc_leads",
                ),
                NAMESPACES,
            ),
            Tried(
                "security/test_landlock_walls.py",
                ("test_set_up_writes_through_no_link",),
                (LANDLOCK,),
            ),
            Tried(
                "engine/test_strange_entries.py", ("test_a_start_ignores_what_it_does_not_know",)
            ),
        ),
        TIERS,
    ),
    Wall(
        "descriptors in flight and other counts of one host id end other sandboxes",
        (
            _siege("descriptors in flight: others and the sandbox itself go on passing theirs"),
            Tried(
                "security/test_own_ids.py",
                ("test_a_sandbox_at_its_limit_changes_nothing_in_another",),
                (ROOT,),
            ),
            Tried(
                "engine/sandboxes/test_recovery.py",
                (
                    "test_a_closed_channel_is_opened_again",
                    "test_a_sandbox_whose_agent_dies_keeps_its_files",
                ),
            ),
        ),
        TIERS,
        "where ids are shared, programs of other sandboxes cannot pass descriptors meanwhile",
    ),
    Wall(
        "private files of the host are readable",
        (
            Tried(
                "isolation/root/test_private_entries.py",
                ("test_a_sandbox_reads_no_secret_beside_the_python_that_it_is_shown",),
                TIERS,
            ),
        ),
        TIERS,
    ),
    Wall(
        "files without a name, mapped, in flight or in volumes get past the disk limit",
        (
            _siege("disk: names like those of memory", "disk: in flight in a stream"),
            Tried(
                "security/test_limits.py",
                (
                    "test_a_quota_refuses_what_no_look_finds",
                    "test_nothing_new_without_a_quota_can_be_made_in_a_volume",
                    "test_a_plain_disk_is_watched_for_what_has_no_name",
                    "test_metrics_show_what_has_no_name",
                ),
                (ROOT,),
            ),
        ),
        TIERS,
        "ordinary users' engines without a quota: the size of what is only mapped",
    ),
    Wall(
        "memory files, System V segments and buffers of TCP get past the memory limit",
        (
            _siege("memory: memory files that nobody maps", "memory: memory files in flight"),
            _siege("memory: System V segments that nobody maps", tiers=NAMESPACES),
            _siege("memory: buffers of TCP", tiers=(SUBORDINATE, ONE_ID)),
            Tried(
                "security/test_limits.py",
                (
                    "test_memory_is_watched_where_no_control_group_holds_it",
                    "test_the_memory_of_tcp_is_watched_where_control_groups_count_it_apart",
                ),
                (ROOT,),
            ),
        ),
        TIERS,
    ),
    Wall(
        "sockets of the host are reached from a sandbox without a network namespace",
        (
            Tried(
                "security/test_landlock_walls.py",
                ("test_only_connected_pairs_of_sockets_can_be_made",),
                (LANDLOCK,),
            ),
            Tried(
                "isolation/loopback/test_broker.py",
                (
                    "test_sockets_behave_as_on_a_loopback_interface",
                    "test_senseless_arguments_end_nothing",
                ),
                (LANDLOCK,),
            ),
            Tried(
                "isolation/kernel/test_system_calls.py",
                (
                    "test_the_landlock_tier_has_connected_pairs_only",
                    "test_only_streams_reach_the_keeper",
                    "test_the_second_filter_hands_sockets_to_the_keeper",
                ),
            ),
        ),
        (LANDLOCK,),
    ),
    Wall(
        "sockets fill the keeper, or programs that are killed in a call leave them there",
        (
            Tried(
                "isolation/loopback/test_broker.py",
                (
                    "test_the_keeper_holds_a_limited_number_of_sockets",
                    "test_programs_killed_in_a_call_leave_nothing",
                    "test_signals_break_no_program",
                ),
                (LANDLOCK,),
            ),
        ),
        (LANDLOCK,),
    ),
    Wall(
        "signals reach processes outside, or files outside are shortened, under an older Landlock",
        (
            Tried(
                "isolation/confined/test_older_landlock.py",
                ("test_no_signal_leaves_the_sandbox_and_no_file_outside_is_shortened",),
                (LANDLOCK,),
            ),
        ),
        (LANDLOCK,),
    ),
    Wall(
        "a sandbox without a network namespace reaches ports of others, or past its rules",
        (
            Tried(
                "engine/test_landlock.py",
                (
                    "test_the_gateway_reaches_a_port_and_no_other_sandbox_does",
                    "test_the_way_out_is_the_proxy_with_its_rules",
                ),
                (LANDLOCK,),
            ),
        ),
        (LANDLOCK,),
    ),
    Wall(
        "ports are used with the id of a sandbox alone",
        (
            _siege(
                "run code through the interpreter",
                "send requests through the egress proxy",
            ),
            Tried(
                "service/gateway/test_interpreter_access.py",
                (
                    "test_code_needs_the_token",
                    "test_only_the_named_routes_are_open",
                    "test_an_upgrade_is_no_way_around",
                    "test_a_body_without_a_token_is_small",
                    "test_calls_without_a_token_are_limited",
                    "test_the_egress_proxy_is_not_reachable_from_outside",
                ),
            ),
        ),
        TIERS,
    ),
    Wall(
        "how a program ends, ends the first process",
        (
            _siege("the first process: programs that stop and end in strange ways"),
            Tried(
                "agent/processes/test_wait_status.py",
                ("test_every_wait_status_is_an_exit_code_or_a_child_that_goes_on",),
            ),
            Tried(
                "isolation/test_hardening.py",
                ("test_a_program_that_asks_to_be_traced_ends_nothing",),
                (ROOT,),
            ),
        ),
        TIERS,
    ),
    Wall(
        "counters of the whole machine are used up",
        (
            _siege(
                "inotify instances: all of one user",
                "terminals: all of the machine",
                tiers=NAMESPACES,
            ),
            Tried("engine/live/test_watchers.py", ("test_all_watchers_share_one_instance",)),
        ),
        NAMESPACES,
        "Landlock has no limits of its own for inotify",
    ),
    Wall(
        "processes outlive the sandbox or its keeper, or fork faster than they are ended",
        (
            _siege("outlive the sandbox", "processes: a fork bomb"),
            Tried(
                "security/test_landlock_walls.py",
                (
                    "test_a_killed_keeper_leaves_no_process",
                    "test_the_kernel_stops_a_bomb_that_nobody_watches",
                ),
                (LANDLOCK,),
            ),
            Tried(
                "isolation/confined/test_process_limit.py",
                (
                    "test_a_group_is_killed_at_once_also_those_that_were_not_seen",
                    "test_what_forks_faster_than_it_is_killed_ends_the_sandbox",
                ),
                (LANDLOCK,),
            ),
        ),
        TIERS,
    ),
    Wall(
        "host ids of a sandbox belong to another user of the machine",
        (
            Tried(
                "security/test_own_ids.py",
                ("test_no_id_of_a_sandbox_is_in_a_range_of_a_local_user",),
                (ROOT,),
            ),
            Tried(
                "isolation/ids/test_blocks.py",
                (
                    "test_blocks_of_other_users_are_left_out",
                    "test_ids_of_a_directory_service_and_ranges_in_ranges_count",
                ),
            ),
        ),
        (ROOT,),
    ),
    Wall(
        "addresses that are not public pass the egress policy",
        (
            Tried(
                "engine/egress/test_special_addresses.py",
                (
                    "test_special_addresses_are_public_only_if_they_are_reachable",
                    "test_blocks_of_other_registries_are_not_public",
                    "test_metadata_services_are_not_public_in_any_form",
                    "test_the_answer_does_not_depend_on_the_version_of_python",
                ),
            ),
            Tried(
                "engine/egress/test_policy.py",
                ("test_addresses_of_the_machine_are_refused_in_any_spelling",),
            ),
        ),
    ),
    Wall(
        "the secret of a rule is sent to another host",
        (
            Tried(
                "engine/egress/test_intercept.py",
                (
                    "test_a_request_for_another_host_gets_no_secret",
                    "test_a_server_that_cannot_prove_its_name_gets_no_headers",
                    "test_no_method_asks_a_server_for_the_headers_that_were_added",
                ),
            ),
        ),
    ),
    Wall(
        "sandboxes signal each other by locks of files that both are shown",
        (
            Tried(
                "isolation/root/test_private_entries.py",
                ("test_a_sandbox_reads_no_secret_beside_the_python_that_it_is_shown",),
                NAMESPACES,
            ),
        ),
        NAMESPACES,
        "Landlock: the files are those of the host",
    ),
    Wall(
        "the file interface shows what /proc has about the agent",
        (
            _siege("download the agent's environment"),
            Tried(
                "agent/files/test_files.py",
                (
                    "test_what_procfs_has_about_the_agent_is_refused",
                    "test_links_of_procfs_about_the_agent_lead_nowhere",
                ),
            ),
        ),
        TIERS,
        "everywhere: df and mountinfo show sizes and paths of the host's disk",
    ),
    Wall(
        "a program holds its own pipe, and the engine that reads it",
        (
            Tried(
                "engine/live/test_pipes.py",
                ("test_a_program_that_holds_its_pipe_holds_up_nobody_else",),
            ),
        ),
    ),
    Wall(
        "trees of any depth, and directories of others, stop the engine",
        (
            Tried(
                "agent/files/test_removal.py",
                ("test_a_tree_of_any_depth_is_removed_with_few_descriptors",),
            ),
            Tried(
                "isolation/trees/test_mirror.py",
                ("test_a_tree_of_any_depth_is_copied_with_few_descriptors",),
            ),
            Tried("isolation/test_lifecycle.py", ("test_a_very_deep_tree_is_removed",), (ROOT,)),
            Tried(
                "engine/state/test_datadir.py", ("test_the_directory_of_another_user_is_refused",)
            ),
        ),
    ),
    Wall(
        "a notebook or a page of a sandbox acts in JupyterLab",
        (
            Tried(
                "browser/files/test_untrusted_files.py",
                (
                    "test_nothing_runs_when_a_notebook_is_opened_saved_and_loaded_again",
                    "test_nothing_runs_when_the_address_names_the_notebook",
                    "test_a_saved_notebook_keeps_its_widgets_and_claims_no_trust",
                    "test_a_trusted_page_of_a_sandbox_does_not_reach_the_lab",
                    "test_a_drawing_in_a_notebook_sends_requests_after_trust_only",
                    "test_a_drawing_in_a_file_of_a_sandbox_sends_no_request",
                ),
            ),
            Tried(
                "browser/ports/test_hostile_port.py",
                ("test_a_page_from_a_sandbox_gets_nothing_of_jupyter",),
            ),
            Tried(
                "kernel/test_messages.py",
                (
                    "test_active_results_come_in_frames_or_as_text",
                    "test_a_variable_that_the_debugger_draws_cannot_act",
                    "test_a_language_names_no_exporter_and_has_no_markup",
                ),
            ),
            Tried(
                "display/test_display.py",
                (
                    "test_formulas_that_could_act_are_drawn_nowhere",
                    "test_dollar_signs_in_names_are_no_formulas",
                ),
            ),
        ),
    ),
    Wall(
        "a notebook of a sandbox runs on the host",
        (
            Tried(
                "browser/files/test_untrusted_files.py",
                (
                    "test_a_kernel_of_the_host_is_attached_after_a_question_only",
                    "test_a_console_for_a_file_of_a_sandbox_asks_too",
                ),
            ),
        ),
    ),
    Wall(
        "an earlier call ends the verification of certificates",
        (
            Tried(
                "client/connection/test_tls.py",
                (
                    "test_a_call_over_http_does_not_end_verification",
                    "test_a_trusted_certificate_for_another_name_is_refused",
                    "test_uploads_verify_as_well",
                ),
            ),
        ),
    ),
    Wall(
        "tokens are in the environment of the engine or of a sandbox",
        (
            _siege("find the token in any environment"),
            Tried(
                "client/connection/test_bundled.py",
                ("test_the_engine_gets_only_what_it_needs_of_the_environment",),
            ),
        ),
        TIERS,
    ),
    Wall(
        "control sequences and forged lines reach a terminal or a log",
        (
            _siege("terminal escapes in names", "headers in a name"),
            Tried(
                "engine/egress/test_proxy.py",
                ("test_what_is_no_name_is_refused_and_reaches_no_log",),
            ),
            Tried(
                "cli/test_logs.py",
                (
                    "test_an_entry_is_one_line_of_text_without_control_sequences",
                    "test_what_a_build_step_prints_moves_no_cursor_and_keeps_its_colours",
                ),
            ),
            Tried("server/test_access.py", ("test_an_error_is_one_line_in_the_log",)),
        ),
        TIERS,
    ),
    Wall(
        "a crash, a protocol or a terminal makes the machine start or load something",
        (
            _siege("have its crash handled by the machine", "change what a terminal's line does"),
            Tried(
                "isolation/kernel/test_system_calls.py",
                (
                    "test_the_limit_of_core_dumps_stays",
                    "test_other_protocols_load_no_module",
                    "test_arguments_are_examined",
                ),
            ),
        ),
        TIERS,
    ),
    Wall(
        "set-uid programs that a sandbox leaves have rights outside",
        (
            _siege("read a secret with a set-uid program made inside", tiers=NAMESPACES),
            Tried(
                "isolation/privileged/test_separation.py",
                ("test_the_engine_has_mounts_of_its_own_though_nothing_bars_its_way",),
                (ROOT,),
            ),
        ),
        (ROOT,),
    ),
    Wall(
        "a container registry holds up the engine, or is sent logins of its user",
        (
            Tried(
                "engine/templates/test_hostile_registries.py",
                (
                    "test_an_answer_without_end_is_not_read",
                    "test_logins_of_the_user_of_the_engine_are_not_sent",
                    "test_a_registry_leads_to_plain_http_at_no_step",
                    "test_a_pull_that_is_given_up_leaves_no_thread",
                ),
            ),
        ),
    ),
    Wall(
        "a sandboxed kernel fills the memory of the Jupyter server",
        (
            Tried("kernel/test_messages.py", ("test_what_is_passed_on_as_it_is_has_a_size",)),
            Tried(
                "kernel/test_output_limit.py",
                (
                    "test_buffers_of_widgets_count_for_the_rate",
                    "test_replies_are_let_through_at_a_rate",
                ),
            ),
        ),
    ),
    Wall(
        "one user of a shared engine or server learns of what others have",
        (
            Tried(
                "service/test_owners.py",
                (
                    "test_each_owner_sees_their_own_sandboxes_and_the_operator_all",
                    "test_each_owner_is_told_only_of_their_own_changes",
                    "test_who_has_lost_their_key_is_told_nothing_more",
                ),
            ),
            Tried(
                "server/test_users.py",
                (
                    "test_each_user_sees_their_own",
                    "test_kernels_in_the_sandboxes_of_others_are_not_named",
                ),
            ),
        ),
    ),
)


def to_markdown() -> str:
    """The table, with a link to each file."""
    lines = ["| Attack | Tried in | Tests | Open |", "|---|---|---|---|"]
    for wall in WALLS:
        tiers = ", ".join(wall.needed) or "every tier alike"
        tests = "<br>".join(
            f"[tests/{tried.where}](../tests/{tried.where}): {', '.join(tried.names)}"
            + (
                f" ({', '.join(tried.tiers)})"
                if wall.needed and tried.tiers != wall.needed and tried.tiers
                else ""
            )
            for tried in wall.tried
        )
        lines.append(f"| {wall.attack} | {tiers} | {tests} | {wall.open_in} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(to_markdown(), end="")
