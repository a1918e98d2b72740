// Places for the nodes of a graph that was written rather than drawn.

/** Moves nodes apart and neighbours together, within the unit square; nodes have x and y. */
export function arrange(nodes, edges, rounds = 300) {
  const ideal = 0.8 / Math.sqrt(Math.max(1, nodes.length));
  nodes.forEach((node, index) => {
    const angle = (2 * Math.PI * index) / nodes.length;
    node.x = 0.5 + 0.35 * Math.cos(angle);
    node.y = 0.5 + 0.35 * Math.sin(angle);
  });
  const place = new Map(nodes.map((node) => [node.name, node]));
  for (let round = 0; round < rounds; round++) {
    const moves = new Map(nodes.map((node) => [node, [0, 0]]));
    const push = (one, two, strength) => {
      const dx = one.x - two.x || 1e-3;
      const dy = one.y - two.y || 1e-3;
      const apart = Math.max(1e-3, Math.hypot(dx, dy));
      const force = strength(apart) / apart;
      moves.get(one)[0] += dx * force;
      moves.get(one)[1] += dy * force;
      moves.get(two)[0] -= dx * force;
      moves.get(two)[1] -= dy * force;
    };
    nodes.forEach((one, index) => {
      for (const two of nodes.slice(index + 1)) push(one, two, (apart) => (ideal * ideal) / apart);
    });
    for (const [one, two] of edges) push(place.get(one), place.get(two), (apart) => -(apart * apart) / ideal);
    const reach = 0.1 * (1 - round / rounds);
    for (const [node, [dx, dy]] of moves) {
      const length = Math.hypot(dx, dy) || 1;
      const step = Math.min(length, reach) / length;
      node.x += dx * step;
      node.y += dy * step;
    }
  }
  fit(nodes);
}

/** Stretches the drawing so that it fills the square but for a margin. */
function fit(nodes, margin = 0.08) {
  for (const axis of ["x", "y"]) {
    const values = nodes.map((node) => node[axis]);
    const low = Math.min(...values);
    const span = Math.max(...values) - low;
    for (const node of nodes) {
      node[axis] = span < 1e-6 ? 0.5 : margin + ((1 - 2 * margin) * (node[axis] - low)) / span;
    }
  }
}
