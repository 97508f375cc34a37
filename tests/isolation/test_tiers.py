"""The report about a machine, and what is chosen from it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.errors import IsolationError
from sbx_jupyter.isolation.missing import Missing
from sbx_jupyter.isolation.tiers import IsolationReport, choose, detect
from tests.isolation.mounts import mounts_besides_tests

if TYPE_CHECKING:
    from pathlib import Path

WEAK = IsolationReport(
    tier="landlock",
    users="virtual",
    limits={"memory": "watchdog", "cpu": "none", "processes": "rlimit", "disk": "watchdog"},
    freezer="signals",
    reflink=False,
    missing=[Missing("user namespaces are refused (EPERM)", "ask the administrator", "containers")],
    landlock_abi=5,
)


def test_detection_is_quick_and_leaves_nothing(tmp_path: Path) -> None:
    mounts = mounts_besides_tests(tmp_path)
    start = time.perf_counter()
    report = detect(tmp_path)
    assert time.perf_counter() - start < 15  # on a machine that is busy with others
    assert os.listdir(tmp_path) == []
    assert mounts_besides_tests(tmp_path) == mounts
    assert json.loads(json.dumps(report.to_json()))["tier"] == report.tier


def test_a_probe_that_does_not_end_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sbx_jupyter.isolation.tiers._PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr("sbx_jupyter.isolation.tiers._PROBE_TIMEOUT", 0.1)
    with pytest.raises(IsolationError, match=r"did not end within 0\.1 s"):
        detect(tmp_path)


def test_every_missing_thing_has_a_remedy(report: IsolationReport) -> None:
    for missing in report.missing:
        assert missing.what
        assert missing.remedy


def test_auto_takes_the_strongest(report: IsolationReport) -> None:
    assert choose(report) == report.tier
    assert choose(report, report.tier) == report.tier


def test_a_tier_that_does_not_work_is_refused_with_its_reason() -> None:
    with pytest.raises(IsolationError, match=r"User namespaces are refused \(EPERM\): ask the"):
        choose(WEAK, "namespaces")
    assert choose(WEAK) == "landlock"


def test_no_fence_is_never_taken_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbx_jupyter.isolation.tiers.is_container", lambda: True)
    nothing = replace(WEAK, tier="none", landlock_abi=0)
    with pytest.raises(IsolationError, match="cannot fence"):
        choose(nothing)
    assert choose(nothing, "none") == "none"


def test_no_fence_is_refused_to_root_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbx_jupyter.isolation.tiers.is_container", lambda: False)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    with pytest.raises(IsolationError, match="refused to root of a machine"):
        choose(WEAK, "none")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert choose(WEAK, "none") == "none"


def test_landlock_is_refused_to_root_and_where_there_is_none() -> None:
    strong = replace(WEAK, tier="namespaces", landlock_abi=0)
    with pytest.raises(IsolationError, match="'landlock' does not work"):
        choose(strong, "landlock")
    if os.getuid() == 0:
        with pytest.raises(IsolationError, match="'landlock' does not work"):
            choose(replace(strong, landlock_abi=7), "landlock")


def test_an_unknown_tier_is_named() -> None:
    with pytest.raises(IsolationError, match="no tier 'gvisor'"):
        choose(WEAK, "gvisor")
