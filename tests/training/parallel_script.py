"""Trains in two processes, as the engine does, and stores what each of them saw.

Not a test: `test_parallel.py` runs it, since Lightning starts the second process by running its script again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from catnf.experiments import Experiment
from catnf.storage import save_tensors
from catnf.training.interrupt import Interrupt
from catnf.training.run import RunOptions, _launch, _Run


def main(folder: Path, experiments: list[Experiment]) -> None:
    options = RunOptions(folder / "run", seed=1, device="cpu", devices=2, quiet=True, log_every=2)
    fabric = _launch(options)
    for experiment in experiments:
        name = experiment.model.kind
        (folder / "run" / name).mkdir(parents=True, exist_ok=True)
        options = RunOptions(folder / "run" / name, seed=1, device="cpu", devices=2, quiet=True, log_every=2)
        run = _Run(experiment, experiment.make_task(), options, fabric, time.monotonic(), None)
        start = run.step.flat.values.detach().clone()
        state = run.step.generator.get_state()
        gradients: list[torch.Tensor] = []

        def average(
            gradient: torch.Tensor, run: _Run = run, gradients: list[torch.Tensor] = gradients
        ) -> None:
            run._average(gradient)
            gradients.append(gradient.clone())

        run.step.reduce = average
        with Interrupt() as interrupt:
            run.loop(interrupt)
        told = {
            "start": start,
            "random": state,
            "gradient": gradients[0],
            "values": run.step.flat.values,
            "average": run.step.average,
            "bits": torch.tensor(float("nan") if run.bits is None else run.bits),
        }
        save_tensors(folder / f"{name}-{fabric.global_rank}.safetensors", told, {"rank": fabric.global_rank})
    fabric.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    told = json.loads(Path(sys.argv[2]).read_text())
    main(Path(sys.argv[1]), [Experiment.from_mapping(values) for values in told])
