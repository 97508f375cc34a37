"""Test that large programs work in a sandbox: compilers, virtual machines, package managers.

They use more of the kernel than other tests do, so they show when the filter of system calls lacks
one. They take a minute or two: ``make test-programs``.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.fence_spec import Limits
from sbx_jupyter.isolation.tiers import IsolationReport, Tier, detect
from tests.isolation.inside import Inside, sandbox

LARGE = Limits(memory_mb=4096, cpu_count=2, processes=512, disk_mb=0, open_files=4096)

GO = """
cat > main.go <<'end'
package main
import ("fmt"; "net"; "os"; "time"; "sync")
func main() {
  listener, err := net.Listen("tcp", "127.0.0.1:0"); if err != nil { panic(err) }
  var all sync.WaitGroup
  for i := 0; i < 50; i++ { all.Add(1); go func() { time.Sleep(time.Millisecond); all.Done() }() }
  all.Wait(); listener.Close()
  data, _ := os.ReadFile("/etc/hostname"); fmt.Println("go works", len(data) > 0)
}
end
export PATH=$PATH:/usr/local/go/bin GOFLAGS=-mod=mod GOTOOLCHAIN=local GO111MODULE=off
go run main.go
"""
JAVA = """
cat > Main.java <<'end'
import java.nio.file.*; import java.util.concurrent.*; import java.net.*;
public class Main { public static void main(String[] given) throws Exception {
  var pool = Executors.newFixedThreadPool(8); var sum = new java.util.concurrent.atomic.LongAdder();
  for (int i = 0; i < 100; i++) { final int n = i; pool.submit(() -> sum.add(n)); }
  pool.shutdown(); pool.awaitTermination(20, TimeUnit.SECONDS); System.gc();
  try (var server = new ServerSocket(0)) { Files.writeString(Path.of("written"), "x"); }
  var child = new ProcessBuilder("true").start().waitFor();
  System.out.println("java works " + sum.sum() + child);
} }
end
java Main.java
"""
NODE = """
node -e '
const {Worker} = require("worker_threads"), fs = require("fs"), net = require("net");
const {execFileSync} = require("child_process");
const server = net.createServer().listen(0, "127.0.0.1", () => {
  fs.watch(".").close(); fs.writeFileSync("f", "x"); execFileSync("true");
  new Worker("require(`worker_threads`).parentPort.postMessage(1)", {eval: true})
    .on("message", () => { console.log("node works"); process.exit(0); });
});'
"""
GCC = """
cat > main.c <<'end'
#include <pthread.h>
#include <stdio.h>
static void *run(void *given) { return given; }
int main(void) {
  pthread_t one;
  pthread_create(&one, 0, run, 0); pthread_join(one, 0); puts("c works");
}
end
gcc -O1 -fsanitize=undefined -pthread main.c && ./a.out
"""
DPKG = """
mkdir -p p/DEBIAN p/usr/local/share/mine && echo x > p/usr/local/share/mine/file
printf 'Package: mine\\nVersion: 1\\nArchitecture: all\\nMaintainer: m <m@m>\\nDescription: d\\n' \
  > p/DEBIAN/control
printf '#!/bin/sh\\nchown 1000:1000 /usr/local/share/mine/file\\n' > p/DEBIAN/postinst
chmod 755 p/DEBIAN/postinst
mkdir -p /var/lib/dpkg/{info,updates,triggers}; touch /var/lib/dpkg/status
dpkg-deb --build p mine.deb >&2 && dpkg --force-depends -i mine.deb >&2 &&
dpkg -s mine | grep Status
"""
APT = """
mkdir -p repo p/DEBIAN /var/lib/apt/lists/partial /var/cache/apt/archives/partial /var/lib/dpkg
touch /var/lib/dpkg/status
printf 'Package: mine\\nVersion: 1\\nArchitecture: all\\nMaintainer: m <m@m>\\nDescription: d\\n' \
  > p/DEBIAN/control
dpkg-deb --build p repo/mine_1_all.deb >&2
cd repo && (cat ../p/DEBIAN/control; echo "Filename: ./mine_1_all.deb";
  echo "Size: $(stat -c %s mine_1_all.deb)"
  echo "SHA256: $(sha256sum mine_1_all.deb | cut -d' ' -f1)"
) > Packages
echo "deb [trusted=yes] file:$PWD ./" > ../sources.list
apt="apt-get -qq -o Dir::Etc::SourceList=$PWD/../sources.list -o Dir::Etc::SourceParts=/none"
$apt update >&2 && $apt install --no-install-recommends -y mine >&2 && echo "apt works"
"""
PIP = """
mkdir -p src && printf 'def f(): return 6 * 7\\n' > src/mine_module.py
python - <<'end'
import zipfile
with zipfile.ZipFile("mine_module-1-py3-none-any.whl", "w") as wheel:
    wheel.write("src/mine_module.py", "mine_module.py")
    info = "mine_module-1.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: mine_module\\nVersion: 1\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
    wheel.writestr(info + "RECORD", "")
end
pip install -q --no-index --disable-pip-version-check ./mine_module-1-py3-none-any.whl >&2
python -c 'import mine_module; print("pip works", mine_module.f())'
"""
GIT = """
git init -q r && cd r && git config user.email a@b && git config user.name n && echo x > f &&
git add f && git commit -qm m && git clone -q . ../copy && git -C ../copy log --oneline | wc -l
"""
TAR = """
mkdir d && touch d/f && ln -s f d/l && mkfifo d/p && tar czf t.tgz d && rm -r d && tar xzf t.tgz &&
ls d | tr '\\n' ' '
"""
SQLITE = """
python -c '
import sqlite3
db = sqlite3.connect("x.db"); db.execute("pragma journal_mode=wal")
db.execute("create table t(a)")
db.execute("insert into t values (42)"); db.commit()
print(db.execute("select a from t").fetchone())'
"""
ASYNC = """
python - <<'end'
import asyncio, concurrent.futures, multiprocessing, os
def double(n): return 2 * n
async def main():
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
    out, _ = await child.communicate()
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    server.close()
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as p:
        print(out.decode().strip(), sum(p.map(double, range(5))))
asyncio.run(main())
end
"""

PROGRAMS = {
    "go": ("/usr/local/go/bin/go", "user", GO, "go works true"),
    "java": ("java", "user", JAVA, "java works 49500"),
    "node": ("node", "user", NODE, "node works"),
    "gcc": ("gcc", "user", GCC, "c works"),
    "dpkg": ("dpkg", "root", DPKG, "Status: install ok installed"),
    "apt": ("apt-get", "root", APT, "apt works"),
    "pip": ("sh", "user", PIP, "pip works 42"),
    "git": ("git", "user", GIT, "1"),
    "tar": ("tar", "user", TAR, "f l p"),
    "sqlite": ("sh", "user", SQLITE, "(42,)"),
    "asyncio": ("sh", "user", ASYNC, "child 20"),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> IsolationReport:
    """What this machine allows."""
    return detect(tmp_path_factory.mktemp("detected"))


@pytest.fixture
async def box(report: IsolationReport, tmp_path: Path) -> AsyncIterator[Inside]:
    """A sandbox of the namespace tier with much memory."""
    if report.tier != Tier.NAMESPACES:
        pytest.skip(f"needs namespaces: {report.missing}")
    fence = Fence(tmp_path, report, report.tier)
    await fence.start()
    try:
        async with sandbox(fence, tmp_path, "programs", limits=LARGE) as inside:
            yield inside
    finally:
        await fence.collect(set())
        await fence.stop()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_works_under_the_filter(box: Inside, name: str) -> None:
    needed, user, script, expected = PROGRAMS[name]
    if shutil.which(needed) is None:
        pytest.skip(f"needs {needed}")
    script = f"cd $(mktemp -d) && {script.strip()}"

    ran = await box.run(script, user=user, timeout=200)

    assert ran.out.strip() == expected, ran
