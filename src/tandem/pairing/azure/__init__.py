"""Paired namespaces for programs that use the official SDK: one line changes, the rest stays.

    client = ServiceBusClient.from_connection_string(primary)          # before
    client = PairedServiceBusClient(primary, secondary)                # after

`tandem.pairing.azure.aio` has the same for `azure.servicebus.aio`. At least one process runs a `SyphonRunner`, or the
command `tandem syphon run`. It needs the package azure-servicebus.
"""

from tandem.pairing.azure.blocking import PairedServiceBusClient, PairedServiceBusSender
from tandem.pairing.azure.pair import PairedServiceBusOptions
from tandem.pairing.azure.syphon import SyphonRunner

__all__ = ["PairedServiceBusClient", "PairedServiceBusOptions", "PairedServiceBusSender", "SyphonRunner"]
