"""What tests of models of graphs share."""

import itertools
from collections.abc import Callable

import pytest
import torch

from catnf.context import Context
from catnf.models.graph_model import GraphModel


@pytest.fixture
def sum_to_one() -> Callable[[GraphModel], None]:
    """Trains a model a little, then checks its probabilities against 1 and against its samples."""

    def check(model: GraphModel) -> None:
        """Three nodes of two categories, pairs without an edge or with one of two kinds: 216 graphs."""
        space = torch.tensor(
            list(itertools.product(range(2), range(2), range(2), range(3), range(3), range(3)))
        )
        ctx = Context(len(space), 3)
        generator = torch.Generator().manual_seed(0)
        likely = torch.rand(len(space), generator=generator) ** 4  # what the model has to learn
        model.initialize(space, ctx, generator)
        optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
        for _ in range(60):
            chosen = torch.multinomial(likely, 128, replacement=True, generator=generator)
            loss, _ = model.loss(space[chosen], Context(128, 3), generator)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        bound = model.log_prob(space, ctx, 1, generator)
        tight = model.log_prob(space, ctx, 400, generator)
        assert float(bound.mean()) < float(tight.mean())
        assert float(tight.exp().sum()) == pytest.approx(1.0, abs=0.05)
        drawn = model.sample(Context(4000, 3), generator)
        code = torch.tensor([108, 54, 27, 9, 3, 1])
        seen = torch.bincount(drawn @ code, minlength=216).double() / 4000
        assert 0.5 * float((seen - tight.exp().double()).abs().sum()) < 0.15  # total variation

    return check
