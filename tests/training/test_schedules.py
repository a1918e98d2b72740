"""Numbers that change with the step."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest

from catnf.errors import InputError
from catnf.training.config import TrainingConfig
from catnf.training.schedules import average_decay, rate_factor, reconstruction_weight


def test_cosine_falls_from_the_full_rate_to_zero() -> None:
    config = TrainingConfig(schedule="cosine", steps=100)
    rates = [rate_factor(config, step) for step in range(101)]
    assert rates[0] == 1.0
    assert rates[25] == pytest.approx(0.5 + math.sqrt(0.125))
    assert rates[50] == pytest.approx(0.5)
    assert rates[100] == pytest.approx(0.0, abs=1e-12)
    assert all(after < before for before, after in pairwise(rates))
    assert rate_factor(config, 1000) == pytest.approx(0.0, abs=1e-12), "never rises again"


def test_exponential_decays_by_a_factor_a_step() -> None:
    config = TrainingConfig(schedule="exponential", decay=0.9)
    assert rate_factor(config, 0) == 1.0
    assert rate_factor(config, 3) == pytest.approx(0.9**3)


@pytest.mark.parametrize("schedule", ["cosine", "exponential"])
def test_warm_up_rises_in_a_line_and_is_never_zero(schedule: str) -> None:
    config = TrainingConfig(schedule=schedule, warmup=10, steps=100, decay=1.0)  # type: ignore[arg-type]
    assert [rate_factor(config, step) for step in range(10)] == pytest.approx(
        [(step + 1) / 10 for step in range(10)]
    )
    assert rate_factor(config, 10) == pytest.approx(1.0), "the schedule goes on where warm-up ends"


def test_cosine_ends_with_the_steps_or_the_time_budget_whichever_is_first() -> None:
    config = TrainingConfig(schedule="cosine", steps=100)
    assert rate_factor(config, 50, elapsed=0.2) == rate_factor(config, 50)
    assert rate_factor(config, 20, elapsed=0.5) == rate_factor(config, 50)
    assert rate_factor(config, 20, elapsed=1.0) == pytest.approx(0.0, abs=1e-12)


def test_warm_up_longer_than_the_run() -> None:
    config = TrainingConfig(schedule="cosine", warmup=10, steps=5)
    assert rate_factor(config, 4) == 0.5


def test_reconstruction_weight_holds_and_then_halves_its_excess() -> None:
    config = TrainingConfig(reconstruction_start=9.0, reconstruction_hold=100, reconstruction_half_life=10.0)
    weights = [reconstruction_weight(config, step) for step in (0, 100, 110, 120, 10_000)]
    assert weights == pytest.approx([9.0, 9.0, 5.0, 3.0, 1.0])


def test_reconstruction_weight_can_be_switched_off() -> None:
    config = TrainingConfig(reconstruction_start=1.0)
    assert {reconstruction_weight(config, step) for step in (0, 10, 10_000)} == {1.0}


def test_average_forgets_the_start_and_then_remembers_long() -> None:
    config = TrainingConfig(average=0.99)
    decays = [average_decay(config, step) for step in range(2000)]
    assert decays[0] == 0.1
    assert decays == sorted(decays)
    assert decays[-1] == 0.99
    assert average_decay(TrainingConfig(average=0.0), 500) == 0.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("batch", -1),
        ("learning_rate", 0.0),
        ("clip", -1.0),
        ("average", 1.0),
        ("beta2", 1.5),
        ("decay", 1.1),
        ("learning_rate", 1e39),
        ("reconstruction_half_life", 0.0),
    ],
)
def test_settings_without_a_meaning_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InputError, match=re.escape(f"training.{field} is {value};")):
        TrainingConfig(**{field: value})  # type: ignore[arg-type]
