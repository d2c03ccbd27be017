"""The management API of the service, Atom over HTTP: what `ServiceBusAdministrationClient` of every SDK speaks.

service        the handlers: which URL and verb does what
paths          what a URL names
hubs           event hubs and consumer groups as XML
descriptions   queues, topics and subscriptions as XML, element by element
rules          rules as XML, with values of every type
namespaces     what is told of the namespace itself
documents      entries, feeds and errors around them
values         durations, dates and numbers as XML has them
xml            a reader that refuses more than it needs, and a writer
"""
