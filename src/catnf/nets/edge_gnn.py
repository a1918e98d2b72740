"""Edge-GNN: features of nodes and of edges, updated in turn."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import JointContext
from catnf.nets.gated import GatedUpdate
from catnf.nets.linear import AlignedLinear, spare_elements
from catnf.nets.network import Network
from catnf.nets.readout import Readout
from catnf.pairs import PairLayout, pair_layout, sum_of_ends, to_matrix


class EdgeLayer(nn.Module):
    """One update of nodes and one of edges.

    Nodes attend to their edges, and through them to the nodes on the other side. Over all pairs the attention
    is that of a transformer with a bias from the edge; over given edges it comes from the edge alone.

    Args:
        nodes: width of the features of nodes.
        edges: width of the features of edges.
        heads: attention heads.
        all_pairs: whether edges are all pairs of nodes.
    """

    compile_unit = True  # the repeating part: a whole network would take as many times longer to compile

    def __init__(self, nodes: int, edges: int, heads: int, all_pairs: bool) -> None:
        super().__init__()
        self.heads = heads
        self.norm_nodes = nn.LayerNorm(nodes, elementwise_affine=False)
        self.norm_edges = nn.LayerNorm(edges, elementwise_affine=False)
        self.values = nn.Linear(nodes, (3 if all_pairs else 1) * nodes, bias=False)
        self.edge_values = nn.Linear(edges, nodes, bias=False)
        self.scores = AlignedLinear(edges, heads, bias=False)
        self.update_nodes = GatedUpdate(nodes)
        self.from_ends = nn.Linear(nodes, edges, bias=False)
        self.from_edge = nn.Linear(edges, edges)
        self.update_edges = GatedUpdate(edges)

    def forward(
        self, v: Tensor, e: Tensor, ctx: JointContext, layout: PairLayout | None
    ) -> tuple[Tensor, Tensor]:
        """`v: [batch, nodes, width]`, `e: [batch, edges, width]`; a layout where edges are all pairs."""
        return self.update(v, e, ctx, layout, spare_elements(v))

    def update(
        self, v: Tensor, e: Tensor, ctx: JointContext, layout: PairLayout | None, spare: int
    ) -> tuple[Tensor, Tensor]:
        """`forward` with so many `spare` nodes in all products, which change nothing."""
        normed = self.norm_edges(e)
        if layout is not None:
            v = self.update_nodes(v, self._attend_all(self.norm_nodes(v), normed, ctx, layout, spare))
            ends = sum_of_ends(self.from_ends(self.norm_nodes(v)), layout)
        else:
            assert ctx.incidence is not None
            incidence = F.pad(ctx.incidence.to(v.dtype), (0, spare))
            v = self.update_nodes(v, self._attend_edges(self.norm_nodes(v), normed, ctx, incidence))
            ends = incidence.sum(1) @ F.pad(self.from_ends(self.norm_nodes(v)), (0, 0, 0, spare))
        return v, self.update_edges(e, F.gelu(self.from_edge(normed) + ends))

    def _attend_all(self, v: Tensor, e: Tensor, ctx: JointContext, layout: PairLayout, spare: int) -> Tensor:
        """What nodes collect from all others: `[batch, nodes, width]`."""
        query, key, value = self.values(v).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        key, value = F.pad(key, (0, 0, 0, spare)), F.pad(value, (0, 0, 0, spare))
        bias = to_matrix(self.scores(e), layout, spare).permute(0, 3, 1, 2)
        scores = query @ key.mT / math.sqrt(query.shape[-1]) + bias
        there = F.pad(ctx.nodes.real(v), (0, spare))
        scores = scores.masked_fill(~there[:, None, None, :], -torch.inf)
        attention = torch.softmax(scores.float(), dim=-1).to(v.dtype)
        # Edges are averaged before they are mapped to values: far fewer numbers.
        edges = attention.transpose(1, 2) @ to_matrix(e, layout, spare)  # [batch, nodes, heads, edge width]
        weights = torch.unflatten(self.edge_values.weight, 0, (self.heads, -1))  # [heads, width, edge width]
        collected = torch.einsum("bnhe,hwe->bnhw", edges, weights)
        return ((attention @ value).transpose(1, 2) + collected).flatten(2)

    def _attend_edges(self, v: Tensor, e: Tensor, ctx: JointContext, incidence: Tensor) -> Tensor:
        """What nodes collect over the edges they have: `[batch, nodes, width]`, zero without edges.

        `incidence: [batch, 2, edges, nodes + spare]`.
        """
        nodes = v.shape[1]
        bounded = 10.0 * torch.tanh(self.scores(e).float() / 10.0)  # [batch, edges, heads]
        weight = ctx.edges.hide(torch.exp(bounded).to(v.dtype))
        values = F.pad(self.values(v), (0, 0, 0, incidence.shape[-1] - nodes))
        across = incidence.flip(1) @ values.unsqueeze(1)  # the values of the other end
        message = (across + self.edge_values(e).unsqueeze(1)).unflatten(-1, (self.heads, -1))
        weighted = (message * weight[:, None, :, :, None]).flatten(-2)
        collected = (incidence.mT @ weighted).sum(1)[:, :nodes]
        total = (incidence.sum(1).mT @ weight)[:, :nodes].clamp(min=1e-4)
        out: Tensor = (collected.unflatten(-1, (self.heads, -1)) / total.unsqueeze(-1)).flatten(2)
        return out


class EdgeGNN(Network):
    """A stack of edge layers that predicts for nodes and for edges.

    Args:
        inputs: channels of the kept latents of nodes and of edges.
        outputs: numbers to predict for a node and for an edge.
        nodes: width of the features of nodes.
        edges: width of the features of edges.
        layers: edge layers.
        heads: attention heads.
        all_pairs: whether edges are all pairs of nodes, or those of `ctx.incidence`.
    """

    def __init__(
        self,
        inputs: tuple[int, int],
        outputs: tuple[int, int],
        nodes: int = 256,
        edges: int = 128,
        layers: int = 4,
        heads: int = 4,
        all_pairs: bool = True,
    ) -> None:
        super().__init__()
        self.all_pairs = all_pairs
        # Besides the latents, nodes see the graph's size and the number of their edges.
        self.node_input = AlignedLinear(inputs[0] + 2, nodes)
        self.edge_input = AlignedLinear(inputs[1] + 1, edges)
        self.node_mix = nn.Linear(nodes, nodes, bias=False)
        self.edge_mix = nn.Linear(edges, edges, bias=False)
        self.layers = nn.ModuleList(EdgeLayer(nodes, edges, heads, all_pairs) for _ in range(layers))
        self.node_readout, self.edge_readout = Readout(nodes, outputs[0]), Readout(edges, outputs[1])

    def forward(self, nodes: Tensor, edges: Tensor, ctx: JointContext) -> tuple[Tensor, Tensor]:
        """Kept latents of nodes and edges to predictions for both."""
        dtype = self.node_mix.weight.dtype
        size = ctx.nodes.sizes(nodes)
        if ctx.incidence is None:
            degree = torch.zeros_like(nodes[..., :1])
            layout = pair_layout(nodes.shape[1], nodes.device)
        else:
            degree = ctx.incidence.sum((1, 2)).unsqueeze(-1).to(nodes.dtype) / 4.0
            layout = None
        of_edges = size[:, :1].expand(-1, edges.shape[1], -1)
        v = self.node_mix(F.gelu(self.node_input(torch.cat([nodes, size, degree], dim=-1).to(dtype))))
        e = self.edge_mix(F.gelu(self.edge_input(torch.cat([edges, of_edges], dim=-1).to(dtype))))
        for layer in self.layers:
            v, e = layer(v, e, ctx, layout)
        return self.node_readout(v), self.edge_readout(e)
