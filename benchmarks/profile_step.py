"""Where the time of a training step goes on a GPU, and how far it is from the arithmetic floor.

python benchmarks/profile_step.py [EXPERIMENT] [FIELD=VALUE ...]   prints one JSON object
"""

from __future__ import annotations

import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

from catnf.experiments import load_experiment
from catnf.provenance import hardware, revision
from catnf.training.step import TrainingStep

STEPS = 5
GROUPS = {  # the first group whose word occurs in a kernel's name
    "matrix products": ("nvjet", "gemm", "cutlass", "splitK"),
    "attention": ("_forward", "_backward"),
    "norms and residuals": ("layer_norm",),
    "activations": ("gelu",),
    "optimizer": ("lerp", "sqrt", "copy_"),
}


def group(kernel: str) -> str:
    """The group that a kernel's name belongs to."""
    if kernel in GROUPS["attention"]:
        return "attention"
    for name, words in GROUPS.items():
        if name != "attention" and any(word in kernel for word in words):
            return name
    return "flow arithmetic, encoding and the rest"


def main(name: str, overrides: list[str]) -> None:
    """Profile `STEPS` replayed steps and print milliseconds per step for every group."""
    experiment = load_experiment(name, overrides)
    device = torch.device("cuda")
    task = experiment.make_task()
    model = experiment.make_model(task, seed=0).to(device)
    generator = torch.Generator(device=device).manual_seed(0)
    x, ctx = task.batch(experiment.training.batch, generator)
    model.initialize(x, ctx, generator)
    step = TrainingStep(
        model, task, experiment.training, generator, accelerate=True, network_dtype=torch.bfloat16
    )
    for _ in range(10):
        step()
    with profile(activities=[ProfilerActivity.CUDA]) as measured:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    milliseconds: dict[str, float] = {}
    kernels = 0.0
    largest: list[tuple[float, float, str]] = []
    for event in measured.key_averages():
        place, each = group(event.key), event.device_time_total / STEPS / 1e3
        milliseconds[place] = milliseconds.get(place, 0.0) + each
        kernels += event.count / STEPS
        largest.append((round(each, 3), event.count / STEPS, event.key[:80]))
    # Forward and backward need 6 operations per weight and element; attention over few elements adds little.
    operations = 6.0 * step.flat.network_end * x.numel()
    outcome = {
        "experiment": name,
        "milliseconds": {key: round(value, 3) for key, value in sorted(milliseconds.items())},
        "kernels": round(kernels),
        "largest": sorted(largest, reverse=True)[:30],  # milliseconds, launches, name
        "tera_operations": round(operations / 1e12, 3),
        "floor_ms_at_790_tflops": round(operations / 790e12 * 1e3, 3),
        "hardware": hardware(device),
        "revision": revision(),
        "overrides": overrides,
    }
    print(json.dumps(outcome, indent=2))


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["sets/shuffling/mixture"]
    main(arguments[0], arguments[1:])
