"""Takes the README's picture: the top of the demo's report in Chromium, as a reader sees it. `make picture` calls it.

The words of the report's summary are kept inside the picture, so that a test finds out when the picture has grown old.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import struct
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1040, 1280
KEYWORD = b"words"
_HEAD = b"\x89PNG\r\n\x1a\n"


def words(summary: list[str]) -> str:
    """A summary without its figures: what of it stays the same from run to run.

    >>> words(["The server accepts 21.6% [17.6%, 26.2%] of 1,233."])
    'The server accepts #% [#%, #%] of #.'
    """
    return "\n".join(re.sub(r"[-+]?\d[\d.,]*\d|[-+]?\d", "#", line) for line in summary)


def words_of(picture: bytes) -> str:
    """What was kept inside a picture; empty where nothing was."""
    at = len(_HEAD)
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        kind, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        if kind == b"tEXt" and data.startswith(KEYWORD + b"\0"):
            return data[len(KEYWORD) + 1 :].decode("latin-1")
        at += 12 + length
    return ""


def with_words(picture: bytes, text: str) -> bytes:
    """The picture with a text chunk behind its header."""
    data = KEYWORD + b"\0" + text.encode("latin-1", "replace")
    chunk = struct.pack(">I", len(data)) + b"tEXt" + data + struct.pack(">I", zlib.crc32(b"tEXt" + data))
    behind = len(_HEAD) + 12 + struct.unpack(">I", picture[len(_HEAD) : len(_HEAD) + 4])[0]
    return picture[:behind] + chunk + picture[behind:]


def take(report: Path) -> bytes:
    """The top of the page, cut below a whole row of the page where it ends."""
    from playwright.sync_api import sync_playwright

    browser_path = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if browser_path is None:
        sys.exit("picture: there is no Chromium on this machine\n  next: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(offline=True, viewport={"width": WIDTH, "height": HEIGHT}).new_page()
        page.goto(report.resolve().as_uri())
        page.wait_for_function("document.querySelectorAll('.plotly-graph-div .main-svg').length > 0")
        first = page.locator(".plotly-graph-div").first.bounding_box()
        assert first is not None
        below = min(HEIGHT * 2, int(first["y"] + first["height"]))
        shot = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": below})
        browser.close()
    return shot


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=ROOT / "data/investigations/demo/report.html")
    parser.add_argument("--out", type=Path, default=PICTURE)
    args = parser.parse_args()
    if not args.report.is_file():
        sys.exit(f"picture: there is no {args.report}\n  next: make demo")
    summary = json.loads(args.report.with_suffix(".json").read_text(encoding="utf-8"))["summary"]
    args.out.write_bytes(with_words(take(args.report), words(summary)))
    print(f"picture: {args.out}, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
