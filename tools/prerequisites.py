"""Check that this Python can make the environment: `python3 tools/prerequisites.py`.

Runs before anything is installed, possibly on a Python that is too old: standard library only, and the syntax of 3.6.
"""

import importlib.util
import sys

NEEDED = (3, 11)


def main():  # type: () -> int
    found = sys.version_info[:2]
    if found < NEEDED:
        print(
            "Tandem needs Python {}.{} or newer; this is {}.{}. Name another one: PYTHON=python3.11 make setup".format(
                *(NEEDED + found)
            ),
            file=sys.stderr,
        )
        return 1
    # Debian ships the standard library's venv without what it needs to put pip into an environment.
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        print(
            "This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
