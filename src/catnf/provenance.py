"""Where a number comes from: hardware and revision."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import torch


def hardware(device: torch.device | str = "cpu") -> str:
    """The name of the device as a reader would say it, for instance `NVIDIA H200`."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cores = torch.get_num_threads()
    return f"{_processor()}, {cores} core{'s' * (cores > 1)}"


def revision() -> str:
    """The git revision of the code, with `+` behind it where files differ; `CATNF_REVISION` overrides."""
    given = os.environ.get("CATNF_REVISION")
    if given:
        return given
    try:
        here = Path(__file__).parent
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        from catnf import __version__

        return f"v{__version__}"


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
