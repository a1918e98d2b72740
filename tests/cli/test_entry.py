"""The command as it starts."""

from __future__ import annotations

import subprocess
import sys

STOPPED = """
import signal, sys

class Stopped:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Stopped())
from catnf.__main__ import main
main()
"""


def test_ctrl_c_while_modules_are_loaded_ends_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
