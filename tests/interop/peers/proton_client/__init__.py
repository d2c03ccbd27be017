"""A client on python-qpid-proton that tries out a server. See tests/interop/peers/features.py.

.venv-peers/bin/python -m tests.interop.peers.proton_client HOST PORT ADDRESS [FEATURE...]
"""
