"""Writes the page of `mallow watch --listen` as an array of bytes in C, with the policy that lets its own
script and style run and nothing else. Usage: embed_live.py PAGE.html OUT.c"""
import base64
import hashlib
import sys

from embed import array


def digest(page, tag):
    """The hash of the one element of this name."""
    begin, end = f"<{tag}>".encode(), f"</{tag}>".encode()
    if page.count(begin) != 1 or page.count(end) != 1:
        sys.exit(f"the page must have one <{tag}>")
    content = page.split(begin)[1].split(end)[0]
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def main(source, out):
    with open(source, "rb") as file:
        page = file.read()
    if b"\r" in page or b"\0" in page:
        sys.exit(f"{source}: a browser would not read these bytes as they stand")
    with open(out, "w", encoding="ascii") as file:
        file.write('#include "watch/out/live_page.h"\n' + array("live_page", page))
        file.write(f'const char live_page_policy[] = "default-src \'none\'; script-src \'sha256-{digest(page, "script")}\'; '
                   f'style-src \'sha256-{digest(page, "style")}\'; connect-src \'self\'; base-uri \'none\'; '
                   f'form-action \'none\'; frame-ancestors \'none\'";\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
