"""Messages over plain HTTP: the service's REST data plane, for whatever can send a request and no more.

service             the handlers: send, receive, settle
sent                what a request sends: one message, or an array of them
events              the same to an event hub
broker_properties   a message's properties as the header of that name, and as headers of their own
receiver            one message, waited for
"""
