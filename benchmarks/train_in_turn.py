"""Trains models one after another on one GPU, and measures them together when all have had their turn.

python benchmarks/train_in_turn.py PLAN [--ahead 3] [--measure "--split test --examples 512"]

A line of PLAN is a label and a catnf command that knows `--turn`, for instance

    ptb-lstm train text/ptb/lstm --budget 90
    bench-lstm bench text/text8/lstm --batch 128 -o runs/results/bench/text8-lstm-h200.json

Recurrent networks fill a GPU by themselves, but starting and compiling takes a minute: so the next commands
get ready while one makes its steps. Measuring waits until the end, since a training beside it would make
fewer steps within its budget. Runs are in runs/LABEL, exported weights in pieces of 15 MB in runs/kept,
results in runs/results/LABEL, what was printed in runs/log-LABEL.txt. What a label that starts with `try`
stands for is not measured. Lines may be added to PLAN while it is worked on.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

RUNS = Path("runs")
CATNF = [sys.executable, "-m", "catnf"]
START = time.monotonic()


def say(what: str) -> None:
    line = f"{time.monotonic() - START:.0f} s: {what}"
    print(line, flush=True)
    with (RUNS / "log.txt").open("a") as file:
        file.write(line + "\n")


@dataclass
class Turn:
    """A command whose turn is ours to give: its lock is held here until then."""

    label: str
    command: list[str]
    lock: IO[str]
    process: subprocess.Popen[bytes]

    @classmethod
    def prepare(cls, line: str, hurry: bool) -> Turn:
        """Start a command of the plan; it gets ready, politely unless in a hurry, and then waits."""
        label, *command = shlex.split(line)
        path = RUNS / "turns" / label
        lock = path.open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole = [*CATNF, *command, "--turn", str(path)]
        if command[0] == "train":
            whole += ["--quiet", "-o", str(RUNS / label)]
        if not hurry:
            whole = ["nice", *whole]
        with (RUNS / f"log-{label}.txt").open("w") as log:
            process = subprocess.Popen(whole, stdout=log, stderr=subprocess.STDOUT)
        return cls(label, command, lock, process)

    def give(self) -> None:
        """Let it work, and wait until it has worked."""
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        taken = False
        while self.process.poll() is None:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                taken = True
            else:
                fcntl.flock(self.lock, fcntl.LOCK_UN)
                if taken:
                    break
            time.sleep(0.2)
        say(f"{self.label} had its turn")

    def finish(self) -> bool:
        """Wait until what was trained is written, and export it; whether there is something to measure."""
        codes = [self.process.wait()]
        trained = self.command[0] == "train"
        if trained and not any(codes):
            codes.append(self._call("export", str(RUNS / self.label), "-o", self._kept, "--shard-mb", "15"))
        say(f"{self.label} is done, exit codes {codes}")
        return trained and not any(codes)

    def measure(self, options: list[str]) -> None:
        """Measure what was trained."""
        if not self.label.startswith("try"):
            results = str(RUNS / "results" / self.label)
            code = self._call("evaluate", self._kept, *options, "--results", results)
            say(f"{self.label} is measured, exit code {code}")

    @property
    def _kept(self) -> str:
        return str(RUNS / "kept" / f"{self.label}.safetensors")

    def _call(self, *command: str) -> int:
        with (RUNS / f"log-{self.label}.txt").open("a") as log:
            return subprocess.call([*CATNF, *command], stdout=log, stderr=subprocess.STDOUT)


def read_plan(path: Path) -> list[str]:
    """The lines of a plan, the first of every label: others would write to the same places."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    first = {line.split()[0]: line for line in reversed(lines)}
    return [line for line in lines if first[line.split()[0]] is line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--ahead", type=int, default=3, help="commands that get ready while one works")
    parser.add_argument("--measure", default="--split test --examples 20000 --samples 1 --generated 128")
    options = parser.parse_args()
    for folder in ("turns", "kept", "results"):
        (RUNS / folder).mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str((RUNS / "compiled").absolute()))
    ready, done, started = deque[Turn](), list[tuple[Turn, Future[bool]]](), 0
    with ThreadPoolExecutor(max_workers=32) as later:
        while True:
            for line in read_plan(options.plan)[started : started + options.ahead + 1 - len(ready)]:
                ready.append(Turn.prepare(line, hurry=started == 0))
                started += 1
            if not ready:
                break
            turn = ready.popleft()
            turn.give()
            done.append((turn, later.submit(turn.finish)))
        for turn in [turn for turn, finished in done if finished.result()]:
            later.submit(turn.measure, shlex.split(options.measure))


if __name__ == "__main__":
    main()
