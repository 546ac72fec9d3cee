#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/batch/kill with few rows: a job that is killed at random moments."""
import os
import sys

from tap import ROOT

KILL = os.path.join(ROOT, "tests", "batch", "kill")
os.execv(sys.executable, [sys.executable, KILL, "--rows", "2000", "--kills", "5"])
