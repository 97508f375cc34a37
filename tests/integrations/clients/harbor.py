"""harbor: tasks with Dockerfiles of rising difficulty, solved by its oracle and left by its nop.

A check is a task and an agent of harbor's own: with the oracle its reward is 1, with the nop 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from named_checks import report

BASE = "FROM e2bdev/base\n"
ROOT = BASE + "USER root\n"
DOCKERFILES = {
    "from": BASE,
    "workdir": BASE + "WORKDIR /app\n",
    "run": ROOT + "RUN mkdir -p /opt/tool && echo made > /opt/tool/file\n",
    "env": ROOT + "ENV GREETING=hello\nRUN test \"$GREETING\" = hello\n",
    "copy": ROOT + "COPY data.txt /srv/data.txt\nRUN grep -q given /srv/data.txt\n",
    "copy-folder": ROOT + "COPY files/ /srv/files/\nRUN test -f /srv/files/inner/deep.txt\n",
    "users": ROOT + "RUN adduser --disabled-password --gecos '' dev && echo dev:p | chpasswd\n",
    "argument": ROOT + "ARG VERSION=1.2\nRUN echo \"$VERSION\" > /version\n",
    "continued": ROOT
    + "RUN set -eux; \\\n    for i in 1 2 3; do \\\n      echo $i; \\\n    done > /list\n",
    "heavy": ROOT + "WORKDIR /build\nCOPY data.txt files/ ./\nENV A=1 B=2\n"
    "RUN python3 -m venv --without-pip /venv && /venv/bin/python -c 'print(1)'\n"
    "RUN chmod -R a+rwX /build && ln -s /build/data.txt /data-link\n",
}  # fmt: skip
TASK = """\
version = "1.0"

[verifier]
timeout_sec = 120.0

[agent]
timeout_sec = 120.0

[environment]
build_timeout_sec = 300.0
cpus = 1
memory = "1G"
storage = "5G"
"""
TEST = """\
#!/bin/bash
mkdir -p /logs/verifier
if grep -qs solved /tmp/answer.txt; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; fi
"""


def write_tasks(folder: Path) -> None:
    for name, dockerfile in DOCKERFILES.items():
        files = {
            "task.toml": TASK,
            "instruction.md": "Write the word solved into /tmp/answer.txt.\n",
            "environment/Dockerfile": dockerfile,
            "environment/data.txt": "given\n",
            "environment/files/inner/deep.txt": "deep\n",
            "solution/solve.sh": "#!/bin/bash\necho solved > /tmp/answer.txt\n",
            "tests/test.sh": TEST,
        }
        for path, content in files.items():
            file = folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)


def report_rewards(folder: Path, agent: str, expected: float) -> None:
    """Let an agent of harbor's own work on each task, and compare its reward."""
    jobs = folder.parent / f"jobs-{agent}"
    harbor = Path(sys.executable).with_name("harbor")
    command = [str(harbor), "run", "-p", str(folder), "-a", agent, "-e", "e2b", "-o", str(jobs)]
    subprocess.run([*command, "-n", "2", "--quiet"], check=True, stdin=subprocess.DEVNULL)
    trials = {
        trial["task_name"].rpartition("/")[2]: trial
        for trial in (json.loads(path.read_text()) for path in jobs.glob("*/*/result.json"))
    }
    for name in DOCKERFILES:
        report(f"{agent}_{name}", failure_of(trials.get(name, {}), expected))


def failure_of(trial: dict, expected: float) -> str | None:
    """Why harbor's result of a task is not the expected reward; ``None`` if it is."""
    if trial.get("exception_info"):
        return " ".join(str(trial["exception_info"]).split())[:600]
    given = (trial.get("verifier_result") or {}).get("rewards") or {}
    reward = given.get("reward")
    return None if reward == expected else f"the reward is {reward}"


with tempfile.TemporaryDirectory() as made:
    tasks = Path(made) / "tasks"
    write_tasks(tasks)
    report_rewards(tasks, "oracle", 1.0)
    report_rewards(tasks, "nop", 0.0)
