"""The outage drill: two brokers, steady traffic, a primary that fails and comes back, and an account of every message.

plan       what is to be done
outages    how the primary fails, and how it comes back
traffic    what is sent and received
drivers    by whose client: that of Tandem, or the official SDK
course     one drill from its beginning to its end
chronicle  what happened, and when
account    what was sent and what came, and which promises were broken
metered    what the brokers counted
formula    what they may count
figures    all that as numbers
report     and as a page with a picture
"""
