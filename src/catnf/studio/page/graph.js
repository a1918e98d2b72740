// A graph that is drawn by clicking, or written as edges, and colored by the model.

import { ask, during, make, onSend, say } from "/page/common.js";
import { arrange } from "/page/layout.js";

const RADIUS = 16;
const NAMES = ["blue", "yellow", "green", "purple", "cyan", "grey", "brown", "navy"];
const START = "1 2\n2 3\n3 4\n4 5\n5 1\n1 6\n2 7\n3 8\n4 9\n5 10\n6 8\n8 10\n10 7\n7 9\n9 6"; // Petersen's

/** Names of nodes and edges from lines of text; an error whose message is a sentence where a line is none. */
export function read(text) {
  const nodes = new Set();
  const edges = new Map();
  text.split("\n").forEach((line, index) => {
    const words = line.split(/[\s,]+/).filter(Boolean);
    if (words.length > 2) throw new Error(`Line ${index + 1} has ${words.length} names; write one or two.`);
    if (words.length === 2 && words[0] === words[1])
      throw new Error(`Line ${index + 1} joins ${words[0]} with itself; write two different names.`);
    for (const word of words) nodes.add(word);
    if (words.length === 2) edges.set(JSON.stringify([...words].sort()), words);
  });
  return { nodes: [...nodes], edges: [...edges.values()] };
}

export function startGraph(section, about) {
  const svg = section.querySelector("#canvas");
  const form = section.querySelector("form");
  const remove = section.querySelector("[data-remove]");
  const classes = section.querySelector(".classes");
  let nodes = []; // {name, x, y}, places within the unit square
  let edges = []; // [name, name]
  let chosen = null; // name of the node that the next click joins
  let colors = {};
  let conflicts = [];
  let written = ""; // the edges as last read or shown
  let empty = false; // whether the pointer went down where there is nothing

  const same = (one, two) => one.includes(two[0]) && one.includes(two[1]);

  function shape(tag, attributes, parent = svg) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    parent.append(element);
    return element;
  }

  function draw() {
    const { width, height } = svg.getBoundingClientRect();
    const at = (node) => [RADIUS + node.x * (width - 2 * RADIUS), RADIUS + node.y * (height - 2 * RADIUS)];
    const place = new Map(nodes.map((node) => [node.name, at(node)]));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    edges.forEach((edge) => {
      const [[x1, y1], [x2, y2]] = edge.map((name) => place.get(name));
      const grip = shape("line", { x1, y1, x2, y2, class: "grip" });
      grip.addEventListener("click", (event) => {
        event.stopPropagation();
        join(edge);
      });
      const line = shape("line", { x1, y1, x2, y2 });
      if (conflicts.some((wrong) => same(wrong, edge))) {
        line.classList.add("conflict");
        line.style.stroke = about.conflict;
      }
    });
    for (const node of nodes) drawNode(node, place.get(node.name));
    if (!nodes.length) {
      shape("text", { x: width / 2, y: height / 2, class: "hint" }).textContent = "Click here";
    }
    svg.setAttribute("aria-label", `A graph of ${nodes.length} nodes and ${edges.length} edges`);
    remove.disabled = chosen === null;
  }

  function drawNode(node, [x, y]) {
    const group = shape("g", { transform: `translate(${x} ${y})`, "data-node": node.name });
    group.classList.toggle("chosen", node.name === chosen);
    const circle = shape("circle", { r: RADIUS }, group);
    const label = shape("text", {}, group);
    label.textContent = node.name.length > 3 ? `${node.name.slice(0, 2)}…` : node.name;
    if (Object.hasOwn(colors, node.name)) {
      const fill = about.palette[colors[node.name] % about.palette.length];
      circle.style.fill = fill;
      label.style.fill = isDark(fill) ? "#fff" : "#1c2026";
    }
    group.addEventListener("pointerdown", (event) => grab(event, node));
  }

  function grab(event, node) {
    event.preventDefault();
    const start = [event.clientX, event.clientY];
    let moved = false;
    const move = (now) => {
      moved ||= Math.hypot(now.clientX - start[0], now.clientY - start[1]) > 5;
      if (!moved) return;
      [node.x, node.y] = where(now);
      draw();
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      if (!moved) choose(node.name);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }

  function where(event) {
    const box = svg.getBoundingClientRect();
    const inside = (value) => Math.min(1, Math.max(0, value));
    return [
      inside((event.clientX - box.left - RADIUS) / (box.width - 2 * RADIUS)),
      inside((event.clientY - box.top - RADIUS) / (box.height - 2 * RADIUS)),
    ];
  }

  function choose(name) {
    if (chosen === null || chosen === name) {
      chosen = chosen === name ? null : name;
      draw();
    } else {
      const pair = [chosen, name];
      chosen = null;
      join(pair);
    }
  }

  /** Joins two nodes, or parts them where they are joined. */
  function join(pair) {
    const others = edges.filter((edge) => !same(edge, pair));
    edges = others.length < edges.length ? others : [...edges, pair];
    changed();
  }

  /** After every change of the graph itself: colors are no longer its own. */
  function changed() {
    colors = {};
    conflicts = [];
    classes.replaceChildren();
    say(section, "");
    const lone = nodes.filter((node) => !edges.some((edge) => edge.includes(node.name)));
    written = [...edges.map((edge) => edge.join(" ")), ...lone.map((node) => node.name)].join("\n");
    form.edges.value = written;
    draw();
  }

  /** Takes what is written, keeping the places of nodes that stay. */
  function take() {
    if (form.edges.value === written) return;
    const told = read(form.edges.value);
    const [count, most] = [told.nodes.length, about.limits.nodes];
    if (count > most) throw new Error(`The graph has ${count} nodes; give at most ${most}.`);
    nodes = told.nodes.map((name) => ({ name }));
    edges = told.edges;
    chosen = null;
    arrange(nodes, edges);
    changed();
  }

  function show(told) {
    ({ colors, conflicts } = told);
    draw();
    const used = [...new Set(Object.values(colors))].sort();
    classes.replaceChildren(
      ...used.map((color) => {
        const own = nodes.filter((node) => colors[node.name] === color).map((node) => node.name);
        const spot = make("i", { "aria-hidden": "true" });
        spot.style.background = about.palette[color % about.palette.length];
        return make("li", {}, spot, `${NAMES[color % NAMES.length]}: ${own.join(", ")}`);
      }),
    );
    const edges = conflicts.map((edge) => edge.join("–")).join(", ");
    say(
      section,
      conflicts.length
        ? `None of ${told.tried} tries is valid; the best joins nodes of one color by ${edges}.`
        : `A valid coloring; ${told.valid} of ${told.tried} tries are valid.`,
    );
  }

  svg.addEventListener("pointerdown", (event) => (empty = event.target === svg));
  svg.addEventListener("click", (event) => {
    if (event.target !== svg || !empty) return;
    if (nodes.length >= about.limits.nodes) {
      return say(section, `A graph has at most ${about.limits.nodes} nodes here.`, "error");
    }
    const names = new Set(nodes.map((node) => node.name));
    let name = 1;
    while (names.has(String(name))) name++;
    const [x, y] = where(event);
    nodes.push({ name: String(name), x, y });
    chosen = null;
    changed();
  });
  section.querySelector("[data-take]").addEventListener("click", () =>
    during(section, "", async () => take()),
  );
  section.querySelector("[data-clear]").addEventListener("click", () => {
    [nodes, edges, chosen] = [[], [], null];
    changed();
  });
  remove.addEventListener("click", () => {
    nodes = nodes.filter((node) => node.name !== chosen);
    edges = edges.filter((edge) => !edge.includes(chosen));
    chosen = null;
    changed();
  });
  onSend(section, () =>
    during(section, "Coloring …", async () => {
      take();
      say(section, "Coloring …", "busy");
      const asked = written;
      const told = await ask("/api/color", "POST", {
        nodes: nodes.map((node) => node.name),
        edges,
        samples: Number(form.samples.value),
        temperature: Number(form.temperature.value),
      });
      if (written !== asked) {
        return say(section, "The graph has changed meanwhile; color it again.");
      }
      show(told);
    }),
  );
  form.edges.value = START;
  take();
  new ResizeObserver(draw).observe(svg);
}

/** Whether white is easier to read on a color like "#4477aa" than black. */
function isDark(color) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue < 140;
}
