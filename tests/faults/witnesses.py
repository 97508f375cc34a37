"""Sandboxes, a snapshot and a volume that stand by while the engine crashes at something else."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.world import World

_known: dict[int, Witnesses] = {}


@dataclass
class Witnesses:
    """What was acknowledged before a crash and has to be there after it."""

    world: World
    running: str
    process: str
    frozen: str
    on_disk: str
    snapshot: str
    volume: str
    may_be_ended: bool = False
    """The step belongs to the end of the engine, which ends what runs."""

    @staticmethod
    def of(world: World) -> Witnesses:
        """Those of a world, made anew where they may have been ended."""
        known = _known.get(id(world))
        if known is None or known.may_be_ended:
            _known[id(world)] = known = Witnesses._make(world)
        return known

    @staticmethod
    def _make(world: World) -> Witnesses:
        of_long_life = {"metadata": {"role": "witness"}, "timeout": 3600}
        running, frozen, on_disk = (world.create(**of_long_life) for _ in range(3))
        process = world.run(running, "echo kept > ~/file; sleep 7200 >/dev/null 2>&1 & echo $!")
        world.run(frozen, "echo kept > ~/file; sleep 7200 >/dev/null 2>&1 &")
        world.run(on_disk, "echo kept > ~/file")
        made = world.ask("POST", f"/sandboxes/{running}/snapshots", {})
        assert made.status_code == 201, made.text
        for sandbox_id, memory in ((frozen, True), (on_disk, False)):
            answer = world.ask("POST", f"/sandboxes/{sandbox_id}/pause", {"memory": memory})
            assert answer.status_code == 204, answer.text
        volume = world.ask("POST", "/volumes", {"name": f"witness-{running}"})
        assert volume.status_code == 201, volume.text
        return Witnesses(
            world, running, process, frozen, on_disk, made.json()["snapshotID"],
            volume.json()["volumeID"],
        )  # fmt: skip

    @property
    def sandbox_ids(self) -> set[str]:
        return {self.running, self.frozen, self.on_disk}

    def assert_unharmed(self) -> None:
        world = self.world
        said = world.run(self.running, f"cat ~/file; kill -0 {self.process} && echo alive")
        assert said == "kept\nalive"
        frozen, on_disk = world.get(self.frozen), world.get(self.on_disk)
        assert frozen is not None
        assert (frozen["state"], frozen["pauseMode"]) == ("paused", "full")
        if world.tier == "namespaces":  # elsewhere each process is stopped
            assert world.is_frozen(self.frozen)
        assert on_disk is not None
        assert (on_disk["state"], on_disk["pauseMode"]) == ("paused", "filesystem")
        names = [item["snapshotID"] for item in world.ask("GET", "/snapshots").json()]
        assert self.snapshot in names
        assert world.ask("GET", f"/volumes/{self.volume}").status_code == 200
