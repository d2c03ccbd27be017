"""Management over HTTP, and what goes with it.

api                 the JSON API: queues are created, listed, shown, updated and deleted
access              who may manage what
answers             what an error looks like to an HTTP client
client              the other side of the JSON API, for the command line
connection_string   the line that the SDKs are given: where a broker is, and the key to it
durations           times as people and XML write them
"""
