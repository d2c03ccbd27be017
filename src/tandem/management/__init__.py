"""Management over HTTP, and what goes with it.

api                 all that is answered over HTTP, in its order
json_api            the JSON API
atom                the service's own management API
rest                the service's REST data plane
hubs                event hubs as users create, change and delete them, whatever API they use
rule_lists          rules that are given together with their subscription
explaining          what one rule does with a message
gate                what every handler needs of the broker, and who is let in
requests            what a request says: its body, its page
access              who may manage what
answers             what an error looks like to an HTTP client
health              whether the broker serves
metered             counts what clients do, for the stream of operations
client              the other side of the JSON API, for the command line
connection_string   the line that the SDKs are given: where a broker is, and the key to it
sizes               sizes as people write them
"""
