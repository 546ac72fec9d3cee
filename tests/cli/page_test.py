#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page at "/": its script runs under node, where there is one."""
import json
import shutil
import subprocess

from tap import Skip, equal, main

PAGE = "frontend/http/page.html"


def test_another_chat_begins_with_nothing_of_the_one_before():
    if shutil.which("node") is None:
        raise Skip("there is no node")
    with open(PAGE, "rb") as page:
        p = subprocess.run(["node", "tests/cli/page.mjs"], stdin=page, capture_output=True,
                           timeout=60, check=False)
    equal(p.returncode, 0, p.stderr.decode())
    two = {"role": "user", "content": "two"}
    equal(json.loads(p.stdout), [[{"role": "user", "content": "one"}], [two],
                                 [two, {"role": "assistant", "content": "yes"},
                                  {"role": "user", "content": "three"}]])


if __name__ == "__main__":
    main(globals())
