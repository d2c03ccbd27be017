"""Kill the broker at random moments while clients work, start it again, and account for every message.

`python -m tests.crash.run --cycles 200` (or `make crash N=200`) does it at length; `test_crash.py` does it in short.
"""
