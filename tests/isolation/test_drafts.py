"""What a process leaves that is killed while it writes a file is no harm to the next."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sbx_jupyter.isolation.private_files import write_private
from sbx_jupyter.isolation.privileged import findings
from sbx_jupyter.isolation.root import stock_plan
from sbx_jupyter.isolation.tiers import IsolationReport
from sbx_jupyter.isolation.zygote.client import record_identity


def test_a_private_file_is_written_over_the_draft_of_the_same_process_id(tmp_path: Path) -> None:
    """In a container each engine may have the same."""
    (tmp_path / f".key.{os.getpid()}").write_bytes(b"half")

    write_private(tmp_path / "key", b"whole")

    assert os.listdir(tmp_path) == ["key"]
    assert (tmp_path / "key").read_bytes() == b"whole"


def test_drafts_of_records_do_not_gather(tmp_path: Path) -> None:
    for name in ("zygote.json.41", "findings.json.42"):
        (tmp_path / name).write_bytes(b"half")

    record_identity(tmp_path / "zygote.json", os.getpid())
    plan = stock_plan.plan_stock(real_users=True, host_root_mapped=True)
    report = IsolationReport("namespaces", "root-mapped", {}, "signals", reflink=False, missing=[])
    found = findings.Findings(report=report, layer="/stock", plan=plan)
    findings.write(tmp_path / "findings.json", found)

    assert set(os.listdir(tmp_path)) == {"zygote.json", "findings.json"}
    assert msgspec.json.decode((tmp_path / "zygote.json").read_bytes())["pid"] == os.getpid()
