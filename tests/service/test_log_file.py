"""The engine's log on the disk loses no line, stays within its bound and keeps its order."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.service.log_file import LogFile
from sbx_jupyter.service.log_format import JsonLines
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEFERRED = "test.requests"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger apart from all others."""
    made = logging.Logger("test")
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
        handler.close()


def attach(logger: logging.Logger, path: Path, **options: int) -> LogFile:
    handler = LogFile(path, deferred=DEFERRED, **options)
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
    return handler


def numbers(folder: Path) -> list[int]:
    """The numbers in all files, the oldest file first, after every line was found whole."""
    files = sorted(folder.iterdir(), key=lambda file: -int(file.suffix[1:].replace("jsonl", "0")))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [int(line["message"]) for line in lines]


def test_no_line_is_lost_when_files_are_switched(logger: logging.Logger, tmp_path: Path) -> None:
    handler = attach(logger, tmp_path / "log.jsonl", max_size=2000, kept_files=1000)

    for number in range(3000):
        logger.name = DEFERRED if number % 3 else "test"
        logger.info("%d", number)
    handler.flush()

    assert numbers(tmp_path) == list(range(3000))
    assert len(list(tmp_path.iterdir())) > 100
    assert max(file.stat().st_size for file in tmp_path.iterdir()) <= 2000


def test_lines_of_many_threads_are_whole_and_complete(
    logger: logging.Logger, tmp_path: Path
) -> None:
    handler = attach(logger, tmp_path / "log.jsonl", max_size=5000, kept_files=1000)
    logger.name = DEFERRED

    def write(first: int) -> None:
        for number in range(first, first + 500):
            logger.info("%d", number)

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 2000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()

    assert sorted(numbers(tmp_path)) == list(range(2000))


def test_the_oldest_files_give_way(logger: logging.Logger, tmp_path: Path) -> None:
    handler = attach(logger, tmp_path / "log.jsonl", max_size=1000, kept_files=2)

    for number in range(1000):
        logger.info("%d", number)
    handler.flush()

    kept = numbers(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"log.jsonl", "log.jsonl.1", "log.jsonl.2"}
    assert kept == list(range(kept[0], 1000))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 3000


def test_a_file_of_an_earlier_engine_counts(logger: logging.Logger, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"message": "0"}\n' * 60)
    attach(logger, path, max_size=1024, kept_files=3)

    logger.info("1")

    assert numbers(tmp_path) == [0] * 60 + [1]
    assert path.stat().st_size < 200


def test_an_important_line_is_there_at_once_and_after_those_before_it(
    logger: logging.Logger, tmp_path: Path
) -> None:
    attach(logger, tmp_path / "log.jsonl")
    logger.name = DEFERRED
    logger.info("1")
    logger.name = "test"
    logger.error("2")

    assert numbers(tmp_path) == [1, 2]


def test_a_request_is_written_soon_without_another_line(
    logger: logging.Logger, tmp_path: Path
) -> None:
    attach(logger, tmp_path / "log.jsonl")
    logger.name = DEFERRED
    logger.info("7")

    until((tmp_path / "log.jsonl").read_text)
    assert numbers(tmp_path) == [7]


def test_a_disk_that_fails_costs_lines_and_nothing_else(
    logger: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_the_way = tmp_path / "log.jsonl.1" / "x"
    in_the_way.mkdir(parents=True)
    attach(logger, tmp_path / "log.jsonl", max_size=200, kept_files=1)

    for number in range(8):
        logger.info("%d", number)
    in_the_way.rmdir()
    in_the_way.parent.rmdir()
    logger.info("8")

    assert "1 lines of the log are lost" in capsys.readouterr().err
    kept = numbers(tmp_path)
    assert kept[0] == 0
    assert kept[-1] == 8
    assert len(kept) < 9


def test_a_message_has_a_bound(logger: logging.Logger, tmp_path: Path) -> None:
    attach(logger, tmp_path / "log.jsonl")
    try:
        raise ValueError("x" * 1_000_000)
    except ValueError:
        logger.exception("y" * 1_000_000)

    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(line) < 64 * 1024
    assert json.loads(line)["level"] == "error"
