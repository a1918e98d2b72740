"""A loss that is not finite stops the run; what was good before stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from catnf.errors import TrainingError
from catnf.experiments import Experiment
from catnf.fitted import load
from catnf.storage import load_tensors, save_tensors
from catnf.training.run import RunOptions, train

Tiny = Callable[..., Experiment]


def options(folder: Path, max_time: float | None = None, log_every: int = 5) -> RunOptions:
    return RunOptions(
        folder, device="cpu", quiet=True, log_every=log_every, checkpoint_every=0.0, max_time=max_time
    )


def test_the_step_is_named_and_nothing_is_saved(tiny: Tiny, tmp_path: Path) -> None:
    experiment = tiny("mixture", "training.learning_rate=1e30", "training.warmup=0")
    with pytest.raises(TrainingError, match=r"The loss became (nan|-?inf) at step [23];") as caught:
        train(experiment, options(tmp_path))
    assert "\n" not in str(caught.value)
    assert "training.learning_rate" in str(caught.value)
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize(
    ("poisoned", "message"),
    [
        ("values", "The loss became nan at step 6"),
        # The loss of step 6 is still finite, the weights after it are not.
        ("optimizer.exp_avg", "The weights became non-finite by step 6"),
    ],
)
def test_the_last_good_checkpoint_is_kept(tiny: Tiny, tmp_path: Path, poisoned: str, message: str) -> None:
    train(tiny(), options(tmp_path, max_time=0.0))
    path = tmp_path / "checkpoint.safetensors"
    tensors, header = load_tensors(path)
    tensors[poisoned][0] = float("nan")
    save_tensors(path, tensors, header)
    before = path.read_bytes()
    with pytest.raises(TrainingError, match=message) as caught:
        train(tiny(), options(tmp_path, log_every=1))
    assert f"the checkpoint {path} is from before" in str(caught.value)
    assert path.read_bytes() == before
    assert torch.isfinite(load(path).log_prob(tiny().make_task().evaluation("test", 4), seed=0)).all()
