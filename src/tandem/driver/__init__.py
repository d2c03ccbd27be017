"""A thin asyncio driver around `tandem.amqp`, server and client side: how little a sans-IO core needs."""

from tandem.driver.client import Client, Receiver, Sender
from tandem.driver.endpoint import Application, Endpoint
from tandem.driver.loop import run
from tandem.driver.server import Server

__all__ = ["Application", "Client", "Endpoint", "Receiver", "Sender", "Server", "run"]
