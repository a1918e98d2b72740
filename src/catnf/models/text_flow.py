"""Flows of texts: lengths, prompts, and dropout in training."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from catnf.context import Context, SequenceContext
from catnf.encodings.encoding import Encoding
from catnf.errors import InputError
from catnf.flows.coupling import unconverged_roots
from catnf.flows.transform import Transform
from catnf.models.categorical_flow import CategoricalFlow
from catnf.models.model import Bound, Model


def draw_lengths(counts: Tensor, count: int, generator: torch.Generator) -> SequenceContext:
    """A context of texts whose lengths are drawn as often as `counts: [longest + 1]` says."""
    lengths = torch.multinomial(counts.float(), count, replacement=True, generator=generator)
    longest = len(counts) - 1
    return SequenceContext(count, longest, torch.arange(longest, device=lengths.device) < lengths[:, None])


def check_prompt(ctx: Context, categories: int) -> Tensor | None:
    """The prompt of a context, or `InputError` where it cannot be continued."""
    prompt = ctx.prompt if isinstance(ctx, SequenceContext) else None
    if prompt is None:
        return None
    if prompt.dim() != 2 or prompt.shape[0] != ctx.batch or not 0 < prompt.shape[1] < ctx.elements:
        raise InputError(
            f"The prompt has shape {tuple(prompt.shape)}; give [{ctx.batch}, 1 to {ctx.elements - 1}], "
            "or ask for longer texts."
        )
    if int(prompt.min()) < 0 or int(prompt.max()) >= categories:
        raise InputError(f"The prompt has symbols outside of 0 to {categories - 1}; encode it with the task.")
    return prompt


class TextModel(Model):
    """What models of texts share: dropout in training, and lengths that are drawn as often as they occur.

    Attributes:
        lengths: how often texts of 0, 1, 2, ... elements occur, `[longest + 1]`; `None` where all are alike.
    """

    lengths: Tensor | None

    def training_bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """With dropout, drawn from the generator."""
        return self.bound(x, replace(SequenceContext.need(ctx), generator=generator), generator)

    def draw_context(self, count: int, generator: torch.Generator) -> Context | None:
        return None if self.lengths is None else draw_lengths(self.lengths, count, generator)


class TextFlow(TextModel, CategoricalFlow):
    """A categorical flow over texts.

    Args:
        encoding: maps categories to latents and back.
        flow: maps latents to the base distribution.
        causal: whether no latent of the flow's output depends on later ones, which continuing a text needs.
        lengths: how often texts of 0, 1, 2, ... elements occur, `[longest + 1]`; `None` where all are alike.
    """

    def __init__(
        self, encoding: Encoding, flow: Transform, causal: bool = True, lengths: Tensor | None = None
    ) -> None:
        super().__init__(encoding, flow)
        self.causal = causal
        self.register_buffer("lengths", lengths)

    def prepare(self, ctx: Context, generator: torch.Generator | None) -> SequenceContext:
        return replace(SequenceContext.need(ctx), anchors=self.encoding.anchors)

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        own = self.prepare(ctx, generator)
        encoded = self.encoding.encode(own.hide(x).long(), own.bare(), generator)
        log_flow = self.flow.log_density(encoded.z, replace(own, scores=encoded.scores), self.base)
        return Bound(log_flow + encoded.log_weight, encoded.log_posterior)

    @torch.no_grad()
    def sample(
        self, ctx: Context, generator: torch.Generator | None = None, temperature: float = 1.0
    ) -> Tensor:
        if check_prompt(ctx, self.categories) is not None and not self.causal:
            raise InputError(
                "This model writes many symbols at once and cannot continue a prompt; "
                "use a model that writes them in turn, such as mixture or transformer."
            )
        return super().sample(ctx, generator, temperature)

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        own = self.prepare(ctx, generator)
        device = self.device if generator is None else generator.device
        shape = (own.batch, own.elements, self.encoding.channels)
        z = own.hide(self.base.sample(shape, generator, device, temperature))
        if own.prompt is None:
            return own.hide(self.encoding.decode(self.flow.inverse(z, own), own.bare()))
        # What the flow makes of the prompt takes the place of noise: going back, it becomes the prompt again.
        known = own.prompt.shape[1]
        start = replace(own.beginning(known, z), stepwise=True)
        noise, _ = self.flow(self.encoding.encode(own.prompt.long(), start.bare(), generator).z, start)
        z = torch.cat([noise, z[:, known:]], dim=1)
        x = self.encoding.decode(self.flow.inverse(z, own), own.bare())
        return own.hide(torch.cat([own.prompt.long(), x[:, known:]], dim=1))

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        """Step by step in both directions and with latents in float64.

        One symbol that rounding turns into another would lead all after it astray, and this is to tell what
        the encoding confuses.
        """
        self.check(x, ctx)
        own = replace(self.prepare(ctx, generator), stepwise=True)
        z = self.encoding.encode(own.hide(x).long(), own.bare(), generator).z
        back = self.flow.inverse(self.flow(z.double(), own)[0], own)
        unconverged_roots(self.flow)  # so that the next samples are not blamed for these
        return own.hide(self.encoding.decode(back.to(z.dtype), own.bare()))
