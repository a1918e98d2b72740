"""Coupling layers: one part of the latents decides how the other part is transformed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.flows.base import Logistic
from catnf.flows.masks import Mask
from catnf.flows.mixture import Mixture, mixture_logit, mixture_logit_inverse
from catnf.flows.transform import Transform


class ScaleBound(nn.Module):
    """Keeps a predicted log-scale `s` within a learned range: `tanh(s / max(e^f, 1)) * e^f`.

    Args:
        shape: the trailing shape of the log-scales, one learned `f` for each.
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.log_range = nn.Parameter(torch.zeros(shape))

    def forward(self, s: Tensor, part: int | slice = slice(None)) -> Tensor:
        """`s: [..., *shape]` bounded; a `part` picks log-scales of the first axis."""
        limit = self.log_range[part].exp()
        return torch.tanh(s / limit.clamp(min=1.0)) * limit


class Coupling(Transform):
    """What couplings share: the mask, the conditioner and the shape of its output.

    Args:
        conditioner: a module `(kept, ctx) -> [batch, elements, changed * parameters]`; `None` where one
            network predicts for several couplings, which then call `change` and `restore` themselves.
        channels: latent channels.
        mask: which channels or elements are kept.
        parameters: numbers that one transformed latent needs.
    """

    def __init__(self, conditioner: nn.Module | None, channels: int, mask: Mask, parameters: int) -> None:
        super().__init__()
        self.conditioner = conditioner
        self.mask = mask
        self.changed = mask.changed_channels(channels)
        self.parameters_each = parameters

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        return self.change(z, self.predict(z, ctx), ctx)

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        return self.restore(z, self.predict(z, ctx), ctx)

    def change(self, z: Tensor, predicted: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """`forward`, given what the conditioner predicts: `[batch, elements, changed * parameters]`."""
        raise NotImplementedError

    def restore(self, z: Tensor, predicted: Tensor, ctx: Context) -> Tensor:
        """`inverse`, given what the conditioner predicts."""
        raise NotImplementedError

    def predict(self, z: Tensor, ctx: Context) -> Tensor:
        """The conditioner's output."""
        assert self.conditioner is not None
        out: Tensor = self.conditioner(self.mask.kept(z), ctx)
        return out

    def describe(self, z: Tensor) -> Tensor:
        """What a network that predicts for several couplings is shown of latents."""
        return z

    def each(self, predicted: Tensor, like: Tensor) -> Tensor:
        """Predictions by latent, in the precision of the flow: `[batch, elements, changed, parameters]`."""
        return torch.unflatten(predicted.to(like.dtype), -1, (self.changed, self.parameters_each))

    def finish(self, z: Tensor, new: Tensor, ctx: Context) -> Tensor:
        """Put the transformed part back beside the kept one."""
        return ctx.hide(self.mask.join(z, new))


class AffineCoupling(Coupling):
    """`(z + t) * exp(s)` with `s`, `t` predicted from the kept part."""

    def __init__(self, conditioner: nn.Module | None, channels: int, mask: Mask) -> None:
        super().__init__(conditioner, channels, mask, parameters=2)
        self.bound = ScaleBound(self.changed)

    @staticmethod
    def outputs(channels: int, mask: Mask) -> int:
        """The number of outputs that the conditioner must have."""
        return 2 * mask.changed_channels(channels)

    def change(self, z: Tensor, predicted: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        shift, log_scale = self._affine(z, predicted)
        new = (self.mask.changed(z) + shift) * log_scale.exp()
        return self.finish(z, new, ctx), ctx.total(self.mask.select(log_scale))

    def restore(self, z: Tensor, predicted: Tensor, ctx: Context) -> Tensor:
        shift, log_scale = self._affine(z, predicted)
        return self.finish(z, self.mask.changed(z) * torch.exp(-log_scale) - shift, ctx)

    def _affine(self, z: Tensor, predicted: Tensor) -> tuple[Tensor, Tensor]:
        shift, log_scale = self.each(predicted, z).unbind(-1)
        return shift, self.bound(log_scale)


class MixtureCoupling(Coupling):
    """The distribution function of a mixture of logistics, its logit, then an affine map.

    `y = (logit F(z) + t) * exp(s)`; everything is predicted from the kept part. The inverse counts the
    roots that did not converge in `unconverged`, which models read once after sampling.

    Args:
        conditioner: a module `(kept, ctx) -> [batch, elements, outputs]`, or `None` as for any coupling.
        channels: latent channels.
        mask: which channels or elements are kept.
        mixtures: logistics in a mixture.
    """

    compile_unit = True
    unconverged: Tensor

    def __init__(self, conditioner: nn.Module | None, channels: int, mask: Mask, mixtures: int) -> None:
        super().__init__(conditioner, channels, mask, parameters=2 + 3 * mixtures)
        self.mixtures = mixtures
        self.bound = ScaleBound(self.changed)
        self.mixture_bound = ScaleBound(self.changed, mixtures)
        # Components that start apart can specialise; identical ones would receive identical gradients.
        self.spread = nn.Parameter(torch.linspace(-1.5, 1.5, mixtures).repeat(self.changed, 1))
        self.register_buffer("unconverged", torch.zeros((), dtype=torch.int64), persistent=False)

    @staticmethod
    def outputs(channels: int, mask: Mask, mixtures: int) -> int:
        """The number of outputs that the conditioner must have."""
        return (2 + 3 * mixtures) * mask.changed_channels(channels)

    def change(
        self, z: Tensor, predicted: Tensor, ctx: Context, start: Mixture | None = None
    ) -> tuple[Tensor, Tensor]:
        """`forward`, given what the conditioner predicts: `[batch, elements, changed * parameters]`.

        With a mixture to `start` from, `[..., changed, mixtures]`, predictions are added to its parameters;
        where all are zero, values from it become values from the base distribution.
        """
        shift, log_scale, mixture = self._picked(self.each(predicted, z), slice(None), start)
        logit, log_derivative = mixture_logit(self.mask.changed(z), mixture)
        logdet = ctx.total(self.mask.select(log_derivative + log_scale))
        return self.finish(z, (logit + shift) * log_scale.exp(), ctx), logdet

    def restore(self, z: Tensor, predicted: Tensor, ctx: Context) -> Tensor:
        shift, log_scale, mixture = self._picked(self.each(predicted, z), slice(None))
        logit = self.mask.changed(z) * torch.exp(-log_scale) - shift
        root = mixture_logit_inverse(logit, mixture)
        failed = self.mask.select((~root.converged).to(z.dtype))
        self.unconverged += ctx.total(failed).sum().to(torch.int64)
        return self.finish(z, root.value, ctx)

    def change_channel(
        self, z: Tensor, predicted: Tensor, channel: int, ctx: Context, start: Mixture | None = None
    ) -> tuple[Tensor, Tensor]:
        """`change` for one of the changed channels, `z: [batch, elements]`; see `restore_channel`."""
        shift, log_scale, mixture = self._picked(predicted.to(z.dtype), channel, start)
        logit, log_derivative = mixture_logit(z, mixture)
        return ctx.hide((logit + shift) * log_scale.exp()), ctx.total(log_derivative + log_scale)

    def restore_channel(
        self, y: Tensor, predicted: Tensor, channel: int, ctx: Context, start: Mixture | None = None
    ) -> Tensor:
        """`restore` for one of the changed channels, where they are predicted one after another.

        Args:
            y: that channel, `[batch, elements]`.
            predicted: for it, `[batch, elements, parameters]`.
            channel: its number among the changed ones.
            ctx: padding of the elements.
            start: as in `change`, for this channel, `[..., mixtures]`.
        """
        shift, log_scale, mixture = self._picked(predicted.to(y.dtype), channel, start)
        root = mixture_logit_inverse(y * torch.exp(-log_scale) - shift, mixture)
        self.unconverged += ctx.total((~root.converged).to(y.dtype)).sum().to(torch.int64)
        return ctx.hide(root.value)

    def _picked(
        self, out: Tensor, part: int | slice, start: Mixture | None = None
    ) -> tuple[Tensor, Tensor, Mixture]:
        """Shift, log-scale and mixture from predictions `[..., parameters]` for some of the channels."""
        logits, means, log_scales = torch.unflatten(out[..., 2:], -1, (3, self.mixtures)).unbind(-2)
        shift, log_scale = out[..., 0], self.bound(out[..., 1], part)
        log_scales = self.mixture_bound(log_scales, part)
        if start is None:
            return shift, log_scale, Mixture(logits, means + self.spread[part], log_scales)
        mixture = Mixture(start.logits + logits, start.means + means, start.log_scales + log_scales)
        return shift, log_scale + Logistic.log_scale, mixture


def unconverged_roots(module: nn.Module) -> int:
    """How many roots did not converge in all couplings of `module` since the last call."""
    found = (getattr(part, "unconverged", None) for part in module.modules())
    counters = [counter for counter in found if isinstance(counter, Tensor)]
    if not counters:
        return 0
    total = int(torch.stack(counters).sum())
    for counter in counters:
        counter.zero_()
    return total
