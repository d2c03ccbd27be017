"""What stands behind the links of a connection.

ingress       links on which clients send to queues and topics
egress        links on which clients receive from queues, subscriptions and their dead letters
event_hub     the same two for event hubs
acknowledging what both kinds of ingress share: one acknowledgement for all that came in a turn
settlement    what the outcomes that receivers give messages do
attaching     what an attach asks for, and what is answered
cbs           $cbs: tokens
management    <entity>/$management: requests about messages and sessions
coordinator   transactions
responses     where the answers of $cbs and $management go
"""
