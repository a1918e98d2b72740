"""Logistics of thousands of words, from vectors of the words."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.encodings.encoding import Encoded, Encoding
from catnf.encodings.mixture import MixtureEncoding
from catnf.flows.anchors import Anchors
from catnf.nets.linear import AlignedLinear, select
from catnf.nets.network import Network


def start_vectors(words: Tensor | None, categories: int, features: int) -> Tensor:
    """Vectors of categories where learning starts, `[categories, features]`, each number about unit normal.

    Given vectors `words: [categories, width]` fill the first columns, as far as they go; rows of zeros among
    them are words without one. Everything else is random.
    """
    out = torch.randn(categories, features)
    if words is None:
        return out
    width = min(features, words.shape[1])
    present = words.any(dim=1)
    known = words[present, :width]
    if len(known) > 1:  # of a single one nothing tells what is usual
        out[present, :width] = (known - known.mean(0)) / known.std(0).clamp(min=1e-6)
    return out


WordDecoding = Literal["bayes", "network", "tied"]


class WordEncoding(MixtureEncoding):
    """Every word is a logistic whose mean and scale are linear in the word's vector.

    The decoder is Bayes' rule over all words; or a network of three layers; or, `tied`, such a network that
    corrects normal distributions of the same means and scales, for which Bayes' rule is one matrix product.

    Args:
        frequencies: the prior over words, `[categories]`.
        channels: latent channels of a word.
        vectors: of the words, `[categories, features]`, where they start; they are learned further.
        hidden: width of the decoder's network.
        decoder: what `p(x|z)` is.
        spread: how many times farther apart than so many words need at least the means start.
    """

    log_prior: Tensor

    def __init__(
        self,
        frequencies: Tensor,
        channels: int,
        vectors: Tensor,
        hidden: int = 512,
        decoder: WordDecoding = "bayes",
        spread: float = 1.0,
    ) -> None:
        Encoding.__init__(self, len(frequencies), channels)
        self.register_buffer("log_prior", frequencies.clamp(min=1e-12).log())
        self.vectors = nn.Parameter(vectors)
        self.place = nn.Linear(vectors.shape[1], 2 * channels)
        features = vectors.shape[1]
        with torch.no_grad():
            # Vectors are unit normal at the start, so that the weights carry the spread of the means.
            # The more words there are for the channels, the more room they need.
            room = spread * max(4.0 / channels**0.5, len(frequencies) ** (1.0 / channels))
            self.place.weight[:channels].normal_(std=room / features**0.5)
            self.place.weight[channels:].zero_()
            self.place.bias.zero_()
        self.decoding = decoder
        self.decoder = None if decoder == "bayes" else WordDecoder(channels, len(frequencies), hidden)
        self.sharpness = nn.Parameter(torch.zeros(channels)) if decoder == "tied" else None

    @property
    def means(self) -> Tensor:
        return self.placed()[0]

    @property
    def log_scales(self) -> Tensor:
        return self.placed()[1]

    @property
    def anchors(self) -> Anchors:
        return Anchors(*self.placed())

    def placed(self) -> tuple[Tensor, Tensor]:
        """Means and log-scales of all words, `[categories, channels]` each."""
        means, raw = self.place(self.vectors).chunk(2, dim=-1)
        return means, torch.tanh(raw)

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        if self.decoder is not None:
            return super().forward(x, noise, ctx)
        z, log_density = self.put(x, noise)
        scores = self.anchors.joint_log_densities(z)
        log_posterior = select(torch.log_softmax(scores + self.log_prior, dim=-1), x)
        return Encoded(ctx.hide(z), ctx.total(log_posterior), ctx.total(log_density), scores)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        if self.decoder is None:
            logits = self.anchors.joint_log_densities(z) + self.log_prior
        else:
            logits = self.decoder(z).to(z.dtype)
        if self.sharpness is not None:
            logits = logits + self._normal_densities(z, self.sharpness) + self.log_prior
        return torch.log_softmax(logits, dim=-1)

    def _normal_densities(self, z: Tensor, sharpness: Tensor) -> Tensor:
        """`log N(z; mean, scale)` of every word up to a constant, `[batch, elements, categories]`."""
        means, log_scales = self.placed()
        precision = torch.exp(sharpness - 2.0 * log_scales)  # [categories, channels]
        # -(z - m)^2 p / 2 = -z^2 p / 2 + z m p - m^2 p / 2
        known = torch.cat([z.square(), z], dim=-1)
        weights = torch.cat([-0.5 * precision, means * precision], dim=-1)
        constant = -0.5 * (means.square() * precision).sum(-1) - log_scales.sum(-1)
        return known @ weights.T + constant


class WordDecoder(Network):
    """Three layers from the latents of a word `[..., channels]` to logits `[..., categories]`."""

    def __init__(self, channels: int, categories: int, hidden: int) -> None:
        super().__init__()
        self.input = AlignedLinear(channels, hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.output = AlignedLinear(hidden, categories)
        nn.init.normal_(self.output.weight, std=1e-2)
        nn.init.zeros_(self.output.bias)

    def forward(self, z: Tensor) -> Tensor:
        h = F.gelu(self.input(z.to(self.mix.weight.dtype)))
        logits: Tensor = self.output(F.gelu(self.mix(h)))
        return logits
