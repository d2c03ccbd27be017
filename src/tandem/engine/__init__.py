"""The broker's state machines, without IO: commands and the present time in, effects out.

    namespace     every queue, and the commands that name one
    queue         one entity: its description, its three sub-queues, what may be sent to it and where it goes on to
    subqueue      one line of messages: who may have the next one, and what becomes of it
    head          the messages at its front that are held in memory
    lock_table    who holds which message, and until when
    sessions      the same for groups of messages that are taken one after the other
    transactions  sends and settlements that happen together or not at all
    effects       what a step wants done: written, asked of the store, told to a client

Nothing here knows a clock, a file, a socket or randomness: they are handed in.
"""
