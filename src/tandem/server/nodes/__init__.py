"""What stands behind the links of a connection.

entity        queues and their sub-queues: links to send on, links to receive on
cbs           $cbs: tokens
management    <entity>/$management: requests about messages and sessions
coordinator   transactions
responses     where the answers of $cbs and $management go
"""
