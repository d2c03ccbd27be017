"""Management over HTTP, and what goes with it.

api                 the JSON API: which path is answered by whom
queues              \\
topics               |  the handlers, a file for each noun: create, list, show, update, delete
subscriptions        |
rules                |
hubs                /
rule_lists          rules that are given together with their subscription
hub_fields          event hubs as requests and configurations describe them
explanations        which subscriptions would get a message, and why
explaining          what one rule does with a message
gate                what every handler needs of the broker, and who is let in
requests            what a request says: its body, its page
access              who may manage what
answers             what an error looks like to an HTTP client
client              the other side of the JSON API, for the command line
connection_string   the line that the SDKs are given: where a broker is, and the key to it
durations           times as people and XML write them
"""
