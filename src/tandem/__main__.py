"""`python -m tandem` is the `tandem` command, for where the console script is not on the path."""

from __future__ import annotations

from tandem.cli import main

if __name__ == "__main__":
    main()
