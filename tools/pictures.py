"""Take the pictures of the documentation in a browser: the report that `make demo` leaves, light and dark.

make demo && make pictures
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
REPORT: Final = ROOT / "build" / "demo" / "report.html"
PICTURES: Final = ROOT / "docs" / "pictures"

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")

# Pixels. The headline figures, the timeline, the outages, and the cost beside the arithmetic of the documents.
_WIDTH: Final = 1_280
_HEIGHT: Final = 1_290

# How Blink numbers the schemes.
_SCHEMES: Final = {"dark": 0, "light": 1}


def main() -> int:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        print("no browser was found: apt install chromium", file=sys.stderr)
        return 1
    if not REPORT.exists():
        print(f"{REPORT.relative_to(ROOT)} is missing: run make demo first", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    for scheme, number in _SCHEMES.items():
        target = PICTURES / f"report-{scheme}.png"
        with tempfile.TemporaryDirectory() as profile:
            command = [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                f"--user-data-dir={profile}",
                f"--blink-settings=preferredColorScheme={number}",
                f"--window-size={_WIDTH},{_HEIGHT}",
                f"--screenshot={target}",
                REPORT.as_uri(),
            ]
            subprocess.run(command, check=True, capture_output=True)
        print(f"wrote {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
