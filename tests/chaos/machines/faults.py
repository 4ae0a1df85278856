"""The kinds of fault that need machines: power, packets and disks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.chaos.faults import KINDS, LONG, SHORT, Kind, Scene
from tests.chaos.machines.cluster import MachineCluster


def _machines(scene: Scene) -> MachineCluster:
    assert isinstance(scene.cluster, MachineCluster), "this fault needs machines"
    return scene.cluster


def _power_lost(victim: Callable[[Scene], int]) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        machines = _machines(scene)
        machines.await_in_sync(scene.topic)  # one machine at a time is what is promised
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        machines.kill(node_id)
        machines.disks[node_id].lose_power()
        scene.hold()
        machines.start_broker(node_id)
        machines.await_in_sync(scene.topic)

    return carry_out


def lose_all_power(scene: Scene) -> None:
    machines = _machines(scene)
    machines.await_in_sync(scene.topic)
    for node_id in machines.running:
        machines.kill(node_id)
    for disk in machines.disks.values():
        disk.lose_power()
    scene.hold()
    for node_id in machines.ids:
        machines.start_broker(node_id, wait=False)
    machines.await_in_sync(scene.topic)


def _disk_lost(victim: Callable[[Scene], int]) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        machines = _machines(scene)
        machines.await_in_sync(scene.topic)
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        machines.kill(node_id)
        machines.disks[node_id].replace()
        scene.hold()
        machines.start_broker(node_id)
        machines.await_in_sync(scene.topic)

    return carry_out


def _disk_full(victim: Callable[[Scene], int]) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        disk = _machines(scene).disks[node_id]
        disk.fill()
        try:
            scene.hold()
        finally:
            disk.empty()

    return carry_out


def lose_packets(scene: Scene) -> None:
    node_id, percent = scene.any_of(scene.cluster.running), 5 + scene.fault.pick % 35
    scene.note(f"broker {node_id}, {percent} %")
    _machines(scene).lose_packets(node_id, percent)
    scene.hold()
    scene.cluster.heal()


# A network of namespaces has no delay, and a real file system has a real end.
_ONLY_LOCAL: Final = ("slow network", "disk of a leader full", "disk of a follower full")

MACHINE_KINDS: Final = {
    **{name: kind for name, kind in KINDS.items() if name not in _ONLY_LOCAL},
    "power of a leader lost": Kind(5, SHORT, _power_lost(Scene.leader)),
    "power of a follower lost": Kind(3, SHORT, _power_lost(Scene.follower)),
    "power of the controller lost": Kind(4, SHORT, _power_lost(Scene.controller)),
    "disk of a leader lost": Kind(2, SHORT, _disk_lost(Scene.leader)),
    "disk of the controller lost": Kind(2, SHORT, _disk_lost(Scene.controller)),
    "file system of a leader full": Kind(3, (0.5, 4.0), _disk_full(Scene.leader)),
    "file system of a follower full": Kind(2, (0.5, 4.0), _disk_full(Scene.follower)),
    "packets lost": Kind(4, LONG, lose_packets),
}
# Promised only where an acknowledged record is flushed.
FLUSHED_KINDS: Final = {**MACHINE_KINDS, "power of all lost": Kind(6, SHORT, lose_all_power)}
