// Places for the nodes of a graph that was written rather than drawn.

const GRAVITY = 1; // towards the middle

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
    for (const [node, move] of moves) {
      move[0] += GRAVITY * (0.5 - node.x); // or parts without an edge between them would drift apart
      move[1] += GRAVITY * (0.5 - node.y);
    }
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

/** Stretches the drawing so that it fills the square but for a margin, one way at most twice the other. */
function fit(nodes, margin = 0.08) {
  const ends = ["x", "y"].map((axis) => {
    const values = nodes.map((node) => node[axis]);
    return { axis, low: Math.min(...values), high: Math.max(...values) };
  });
  const widest = Math.max(...ends.map(({ low, high }) => high - low), 1e-6);
  for (const { axis, low, high } of ends) {
    const scale = (1 - 2 * margin) / Math.max(high - low, widest / 2);
    for (const node of nodes) node[axis] = 0.5 + scale * (node[axis] - (low + high) / 2);
  }
}
