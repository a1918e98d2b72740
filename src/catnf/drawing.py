"""Pictures that several tasks draw: loss curves, and encodings with two latent channels.

Matplotlib is needed here alone, and only while drawing. Figures are made without `pyplot`, so nothing
outside a function changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catnf.context import Context, SetContext
from catnf.encodings.encoding import Encoding
from catnf.errors import InputError, MissingDependencyError
from catnf.storage import cannot_write, check_ordinary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

INK, GRID, BLUE, RED = "#262626", "#e4e4e4", "#2b6cb0", "#c0392b"
SURE = 0.95  # a decoding at least this probable counts as unique


def loss_curve(
    path: str | os.PathLike[str],
    steps: Sequence[float],
    bits: Sequence[float],
    optimum: float | None = None,
    title: str = "",
) -> Path:
    """Draw the loss over training as a PNG: single values faintly, their running mean, the optimum dashed.

    The vertical range is that of the values after the first steps, which would flatten all others.
    """
    if len(steps) != len(bits):
        raise InputError(f"There are {len(steps)} steps but {len(bits)} losses; give one loss a step.")
    at, values = np.asarray(steps, dtype=np.float64), np.asarray(bits, dtype=np.float64)
    finite = np.isfinite(at) & np.isfinite(values)
    at, values = at[finite], values[finite]
    if at.size == 0:
        raise InputError("There are no finite losses to draw; give at least one.")

    figure = make_figure(7.2, 4.2)
    axes = figure.add_subplot()
    _plain(axes)
    smooth = values
    if at.size > 50:
        axes.plot(at, values, color=BLUE, alpha=0.22, linewidth=0.8)
        smooth = _running_mean(values, at.size // 50)
    label = f"last {smooth[-1]:.4f}"
    axes.plot(at, smooth, color=BLUE, linewidth=2.0, marker="o" if at.size == 1 else None, label=label)

    shown = values[at.size // 30 :]  # before, it falls from wherever the initialisation was
    low, high = float(shown.min()), float(np.quantile(shown, 0.99))
    if optimum is not None:
        axes.axhline(optimum, color=RED, linewidth=1.4, linestyle=(0, (5, 3)), label=f"optimum {optimum:.4f}")
        low, high = min(low, optimum), max(high, optimum)
    margin = 0.06 * (high - low) or 0.1
    axes.set_ylim(low - margin, high + margin)
    axes.margins(x=0.01)
    axes.set_xlabel("step")
    axes.set_ylabel("bits per variable")
    axes.locator_params(axis="x", integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title(title, color=INK, fontsize=12, loc="left")
    axes.legend(loc="upper right", frameon=False, fontsize=10)
    return save_figure(figure, path)


@torch.no_grad()
def encoding_picture(
    path: str | os.PathLike[str],
    encoding: Encoding,
    context: Callable[[Tensor], Context] = SetContext.of,
    examples: Tensor | None = None,
    labels: Sequence[str] | None = None,
    title: str = "",
    samples: int = 10_000,
    grid: int = 320,
    seed: int = 0,
) -> Path:
    """Draw an encoding with two latent channels as a PNG, whatever kind of encoding it is.

    Left, the densities `q(z|x)`, each category in its own colour and scaled to its own maximum, with a
    line at a quarter of it. Right, the most probable category for every `z`, pale where its probability
    is below 0.95, with a line around those regions.

    Args:
        context: makes a context from categories `[batch, elements]`.
        examples: `[batch, elements]`, data to encode, for encodings in which elements depend on each
            other; by default each category is encoded alone.
        labels: names of the categories, by default their numbers.
        samples: draws a category, where there are no `examples`.
        grid: points of the picture along each side.
    """
    count = encoding.categories
    if encoding.channels != 2:
        raise InputError(f"The encoding has {encoding.channels} latent channels; only 2 can be drawn.")
    if labels is not None and len(labels) != count:
        raise InputError(f"There are {len(labels)} labels for {count} categories; give one each.")
    if samples < 1 or grid < 2:
        raise InputError(f"samples is {samples} and grid is {grid}; give at least 1 and 2.")
    names = [str(number) for number in range(count)] if labels is None else list(labels)

    training = encoding.training
    encoding.eval()
    try:
        x, z = _encoded(encoding, context, examples, samples, seed)
        low, high = _extent(z)
        probabilities = _partition(encoding, context, low, high, grid)
    finally:
        encoding.train(training)

    points = [z[x == category] for category in range(count)]
    density = np.stack([_density(own, low, high, grid) for own in points])
    figure = make_figure(10.4, 5.4 if title else 5.1)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    extent = (float(low[0]), float(high[0]), float(low[1]), float(high[1]))
    _show_densities(left, density, extent)
    _show_partition(right, probabilities, extent)
    for axes in (left, right):
        _plain(axes, grid=False)
        axes.set_xlabel("$z_1$")
        for name, own in zip(names, points, strict=True):
            if len(own):
                _name(axes, name, own.mean(0), count)
    left.set_ylabel("$z_2$")
    if title:
        figure.suptitle(title, color=INK, fontsize=13)
    return save_figure(figure, path)


def _show_densities(axes: Axes, density: Array, extent: tuple[float, float, float, float]) -> None:
    """Densities `[categories, grid, grid]`, each with a line at a quarter of its maximum."""
    colors = _palette(len(density))
    axes.imshow(_blend(density, colors), origin="lower", extent=extent, interpolation="bilinear")
    for own, color in zip(density, colors, strict=True):
        if own.any():
            axes.contour(own, levels=[0.25], extent=extent, colors=[color], linewidths=0.8, alpha=0.9)
    axes.set_title("Encoding $q(z\\,|\\,x)$", color=INK, fontsize=12)


def _show_partition(axes: Axes, probabilities: Array, extent: tuple[float, float, float, float]) -> None:
    """The most probable of `probabilities: [categories, grid, grid]`, with a line around what is sure."""
    tinted = _tint(probabilities, _palette(len(probabilities)))
    axes.imshow(tinted, origin="lower", extent=extent, interpolation="bilinear")
    best = probabilities.max(0)
    if best.min() < SURE < best.max():
        axes.contour(best, levels=[SURE], extent=extent, colors=INK, linewidths=0.7, alpha=0.75)
    axes.set_title(f"Decoding $p(x\\,|\\,z)$, line at {SURE}", color=INK, fontsize=12)


def _encoded(
    encoding: Encoding, context: Callable[[Tensor], Context], examples: Tensor | None, samples: int, seed: int
) -> tuple[NDArray[np.int64], Array]:
    """Categories `[points]` and latents drawn for them `[points, 2]`, padding left out."""
    device = _device(encoding)
    generator = torch.Generator(device).manual_seed(seed)
    if examples is None:
        examples = torch.arange(encoding.categories).repeat(samples)[:, None]
    xs, zs = [], []
    for part in torch.split(examples, 16_384):
        ctx = context(part.to(device))
        z = encoding.encode(part.to(device), ctx, generator).z
        real = torch.ones_like(part, dtype=torch.bool) if ctx.mask is None else ctx.mask.cpu()
        xs.append(part.cpu()[real])
        zs.append(z.double().cpu()[real])
    x, z = torch.cat(xs), torch.cat(zs)
    if not torch.isfinite(z).all():
        raise InputError("The encoding gives latents that are not finite; there is nothing to draw.")
    return x.numpy(), z.numpy()


def _extent(z: Array) -> tuple[Array, Array]:
    """Two corners, each `[2]`, of a square that holds nearly all latents `[points, 2]`."""
    low, high = np.quantile(z, 0.002, axis=0), np.quantile(z, 0.998, axis=0)
    half = 0.56 * max(float((high - low).max()), 1e-6)
    middle = (low + high) / 2
    return middle - half, middle + half


def _partition(
    encoding: Encoding, context: Callable[[Tensor], Context], low: Array, high: Array, grid: int
) -> Array:
    """`p(x|z)` on a grid over the square: `[categories, grid, grid]`, rows along the second channel."""
    across, up = (torch.linspace(float(a), float(b), grid) for a, b in zip(low, high, strict=True))
    second, first = torch.meshgrid(up, across, indexing="ij")
    z = torch.stack([first, second], dim=-1).view(-1, 1, 2).to(_device(encoding))
    parts = []
    for part in torch.split(z, 8192):
        ctx = context(torch.zeros(part.shape[:2], dtype=torch.int64, device=part.device))
        parts.append(encoding.posterior(part, ctx)[:, 0].double().exp().cpu())
    return torch.cat(parts).T.reshape(-1, grid, grid).numpy()


def _density(z: Array, low: Array, high: Array, grid: int) -> Array:
    """A smoothed histogram of latents `[points, 2]` with maximum 1: `[grid, grid]`; zero without any."""
    if len(z) == 0:
        return np.zeros((grid, grid))
    limits = [(low[1], high[1]), (low[0], high[0])]
    counts, _, _ = np.histogram2d(z[:, 1], z[:, 0], bins=grid, range=limits)
    # Scott's rule, in cells, but never so wide that separate modes of one category melt together.
    scott = z.std(0)[::-1] * len(z) ** (-1 / 6) * grid / (high - low)[::-1]
    for axis, width in enumerate(np.clip(scott, 0.8, grid / 60)):
        reach = np.arange(-int(4 * width) - 1, int(4 * width) + 2)
        kernel = np.exp(-0.5 * (reach / width) ** 2)
        counts = np.apply_along_axis(np.convolve, axis, counts, kernel, mode="same")
    scaled: Array = counts / max(float(counts.max()), 1e-9)
    return scaled


def _blend(density: Array, colors: Array) -> Array:
    """Densities `[categories, grid, grid]` in their colours on white: `[grid, grid, 3]`."""
    mixed = np.tensordot(density, colors, axes=(0, 0)) / np.maximum(density.sum(0), 1e-9)[..., None]
    cover = density.max(0)[..., None] ** 0.7  # lifts the tails, which would fade into the white
    image: Array = 1.0 - cover * (1.0 - mixed)
    return image


def _tint(probabilities: Array, colors: Array) -> Array:
    """The colour of the most probable category, paler the less sure it is: `[grid, grid, 3]`."""
    best = probabilities.max(0)
    strength = np.where(best >= SURE, 0.62, 0.10 + 0.35 * np.clip(best, 0.0, SURE))
    image: Array = 1.0 - strength[..., None] * (1.0 - colors[probabilities.argmax(0)])
    return image


def _palette(count: int) -> Array:
    """`[count, 3]`: neighbours differ in hue and, where there are many, in lightness too."""
    from matplotlib import colormaps
    from matplotlib.colors import hsv_to_rgb

    if count <= 10:
        return np.asarray(colormaps["tab10"](np.arange(count)), dtype=np.float64)[:, :3]
    number = np.arange(count)
    # Evenly spaced to the eye: in HSV itself a third of the circle is one green.
    circle = [0.0, 0.07, 0.13, 0.24, 0.38, 0.49, 0.58, 0.68, 0.79, 0.90, 1.0]
    hue = np.interp(number / count, np.linspace(0, 1, len(circle)), circle)
    hsv = np.stack([hue, np.where(number % 2, 0.6, 0.95), np.where(number % 2, 0.95, 0.66)], axis=1)
    return np.asarray(hsv_to_rgb(hsv), dtype=np.float64)


def _name(axes: Axes, text: str, at: Array, count: int) -> None:
    from matplotlib.patheffects import withStroke

    style: dict[str, Any] = {"ha": "center", "va": "center", "color": INK, "weight": "bold", "clip_on": True}
    label = axes.text(at[0], at[1], text, fontsize=11 if count <= 20 else 7, **style)
    label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def _running_mean(values: Array, reach: int) -> Array:
    """The mean of each value and up to `reach` on either side, as many before as after at the start."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    number = np.arange(values.size)
    # At the start the curve is steep, so the window stays centred; at the end it is flat and noisy.
    before = np.minimum(reach, number)
    after = np.minimum(before, values.size - 1 - number)
    mean: Array = (sums[number + after + 1] - sums[number - before]) / (before + after + 1)
    return mean


def _device(encoding: Encoding) -> torch.device:
    first = next(chain(encoding.parameters(), encoding.buffers()), None)
    return torch.device("cpu") if first is None else first.device


def make_figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("Drawing needs matplotlib: pip install matplotlib.") from error
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Axes, grid: bool = True) -> None:
    """Quiet axes: grey lines, no box on the upper and right side of a curve."""
    axes.tick_params(colors=INK, labelsize=9, length=3)
    for side, spine in axes.spines.items():
        spine.set_color("#9a9a9a")
        spine.set_visible(not grid or side in ("left", "bottom"))
    if grid:
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    check_ordinary(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, format="png")
    except OSError as error:
        raise cannot_write(target, error) from error
    return target
