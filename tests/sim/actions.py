"""What happens in a step, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.sim import managing, receiving, sending, topics

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["ACTIONS", "Action"]

Action = Callable[["World"], None]


def close_receiver(world: World) -> None:
    receiver = world.pick_receiver()
    if receiver is not None:
        receiving.close_receiver(world, receiver)


def open_receiver(world: World) -> None:
    if len(world.receivers) < 3 * world.profile.connection_count + 3:
        receiving.open_receiver(world)


def go_deaf(world: World) -> None:
    """The network is cut, and the broker does not know; later the client is back, or the broker has noticed."""
    connection = world.pick_connection()
    connection.is_deaf = not connection.is_deaf
    world.note(f"connection {connection.index} is {'cut' if connection.is_deaf else 'back'}")


def change_disk(world: World) -> None:
    """The disk is full, or has room again; rarely the device fails."""
    draw = world.random.random()
    if draw < 0.02 and world.profile.crash_share:
        world.disk.is_failing = True
    else:
        world.disk.is_full = draw < 0.2


ACTIONS: Final[dict[Action, float]] = {
    sending.send: 220,
    sending.send_batch: 25,
    sending.send_via: 6,
    sending.send_ping: 3,
    sending.cancel_scheduled: 10,
    open_receiver: 45,
    close_receiver: 12,
    receiving.flow: 120,
    receiving.drain: 15,
    receiving.pause: 10,
    receiving.settle: 300,
    receiving.renew: 25,
    receiving.receive_deferred: 20,
    managing.peek: 8,
    managing.delete_batch: 5,
    managing.set_state: 8,
    managing.get_state: 5,
    managing.list_sessions: 3,
    managing.declare: 10,
    managing.enlist: 30,
    managing.discharge: 12,
    managing.drop_connection: 3,
    managing.create_queue: 6,
    managing.update: 6,
    managing.delete: 3,
    topics.create_topic: 6,
    topics.create_subscription: 12,
    topics.add_rule: 4,
    topics.remove_rule: 3,
    topics.replace_rule: 3,
    go_deaf: 3,
    change_disk: 5,
}
