/** The scene of a track: the environment, and over it, as squares, what the Core attends to. */

import { countNodes, isVector, writtenAt } from "./episodes.js";
import { label, square, svg } from "./make.js";

const GAP = 26;
const PITCH = 1.35;

function cross([x, y], cell) {
  const reach = cell * 0.42;
  const d = `M${x - reach},${y - reach}l${2 * reach},${2 * reach}m0,${-2 * reach}l${-2 * reach},${2 * reach}`;
  return svg("path", { class: "off", d });
}

/** What a memory node holds, in words. */
export function nameSlot(thought, time, slot, agent) {
  const written = writtenAt(thought, time, slot);
  if (isVector(agent, slot)) return `memory vector, most of it from step ${written}`;
  const thing = agent.attention.memory === "observations" ? "observation" : "Memo";
  return written < 0 ? `${thing}: zeros of the start` : `${thing} of step ${written}`;
}

/** Every node: its middle, its name, and a few letters beside its slot. Factors are in the scene. */
function layOut(view, size, scene, agent, time, thought) {
  const { factors, slots } = countNodes(agent);
  const names = agent.attention.factors.flatMap(([name, count]) => Array(count).fill(name));
  const columns = slots > 8 ? 2 : 1;
  const rows = Math.ceil(slots / columns);
  const pitch = Math.min(size.cell * PITCH, (size.height - size.cell - 24) / Math.max(rows, 1));
  const cell = Math.min(size.cell, pitch / 1.3);
  const x0 = size.width + GAP + cell / 2;
  const nodes = [
    { kind: "core", at: [x0, size.cell / 2 + 10], name: "Core", brief: "Core", cell: size.cell },
  ];
  for (let i = 0; i < factors; i++) {
    const place = scene.places[i];
    nodes.push({
      kind: "factor",
      at: place ? view.centre(place, scene) : null,
      name: `Factor ${i + 1} (${names[i]})`,
      cell: size.cell,
    });
  }
  for (let slot = 0; slot < slots; slot++) {
    const column = Math.floor(slot / rows);
    const y = size.cell + 24 + cell / 2 + (slot % rows) * pitch;
    const written = writtenAt(thought, time, slot);
    const isEmpty = thought?.written && thought.present[1 + factors + slot] === "0";
    const brief = isEmpty || written < 0 ? "–" : written;
    nodes.push({
      kind: "memo",
      at: [x0 + column * cell * 2.1, y],
      cell,
      written,
      name: isEmpty ? "empty" : nameSlot(thought, time, slot, agent),
      brief: isVector(agent, slot) ? `v${brief}` : brief,
    });
  }
  return { nodes, width: x0 + (columns - 1) * cell * 2.1 + cell / 2 + 26, cell };
}

function drawNode(node, index, present, isOff, toggle) {
  const [x, y] = node.at;
  const half = node.cell / 2;
  const parts = [];
  if (node.kind !== "factor") {
    const box = { x: x - half, y: y - half, width: node.cell, height: node.cell };
    parts.push(svg("rect", { ...box, class: present || isOff ? "slot" : "slot absent" }));
  }
  if (node.kind === "core") return svg("g", { class: "core" }, ...parts);
  const group = svg(
    "g",
    {
      class: "node",
      "data-node": index,
      role: toggle ? "button" : "img",
      tabindex: toggle ? 0 : null,
      "aria-pressed": toggle ? String(!isOff) : null,
      "aria-label": `${node.name}, ${isOff ? "switched off" : "on"}`,
    },
    ...parts,
    svg("rect", { class: "hit", x: x - half, y: y - half, width: node.cell, height: node.cell }),
  );
  if (toggle) {
    group.addEventListener("click", () => toggle(index));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      toggle(index);
    });
  }
  return group;
}

/** What stands beside the Core and the Memos, over their squares. */
function drawNames(plan, size, agent) {
  const memory = plan.nodes.find((node) => node.kind === "memo");
  const title = agent.attention.memory === "observations" ? "past" : "Memos";
  const names = memory ? [label(title, memory.at[0] - plan.cell / 2, size.cell + 20)] : [];
  for (const { kind, brief, cell, at } of plan.nodes) {
    const [x, y] = at ?? [];
    if (kind === "memo") names.push(label(brief, x + cell / 2 + 3, y + 3, { class: "quiet" }));
    if (kind === "core")
      names.push(label(brief, x, y - cell / 2 - 3, { "text-anchor": "middle" }));
  }
  return svg("g", { class: "names" }, ...names);
}

/** Lines from a node to all others, as wide as the vector of the edge is long. */
function drawEdges(plan, { node, vectors }, present) {
  const lengths = vectors.map((vector) => Math.hypot(...vector));
  const most = Math.max(...lengths) || 1;
  const from = plan.nodes[node]?.at;
  const lines = plan.nodes.map(({ at, name }, other) => {
    if (!from || !at || other === node || !lengths[other] || present[other] !== "1") return null;
    const place = { x1: from[0], y1: from[1], x2: at[0], y2: at[1] };
    const look = { class: "edge", "data-to": other, "stroke-width": (4 * lengths[other]) / most };
    const numbers = vectors[other].map((number) => number.toFixed(2)).join(", ");
    return svg("line", { ...place, ...look }, svg("title", {}, `edge to ${name}: ${numbers}`));
  });
  return svg("g", { class: "edges" }, ...lines);
}

/**
 * The scene as SVG. `shares` is null for agents without attention; `off` are nodes switched off;
 * `toggle`, if there is one, is called with the node that a person wants switched; `edges`, if there
 * are some, are those of one `node`, by their `vectors`.
 */
export function drawScene(view, step, agent, time, shares, off, gain, toggle, edges) {
  const picture = svg("svg", { class: "board", role: "group", "aria-label": step.scene.says });
  picture.append(view.draw(step.scene));
  const size = view.measure(step.scene);
  let { width } = size;
  if (agent.attention) {
    const plan = layOut(view, size, step.scene, agent, time, step.thought);
    width = plan.width;
    const present = step.thought?.present ?? "";
    plan.nodes.forEach((node, i) => {
      const isOff = off.includes(i);
      if (node.at) picture.append(drawNode(node, i, present[i] === "1", isOff, toggle));
    });
    plan.nodes.forEach((node, i) => {
      if (!node.at) return;
      if (off.includes(i)) picture.append(cross(node.at, node.cell));
      else if (shares && present[i] === "1") {
        const look = { class: "attention", "data-node": i };
        const drawn = square(shares[i], gain, size.cell, node.at, look);
        drawn.append(
          svg("title", {}, `${node.name}: ${(100 * shares[i]).toFixed(2)}% of the attention`),
        );
        picture.append(drawn);
      }
    });
    picture.append(drawNames(plan, size, agent));
    if (edges) picture.append(drawEdges(plan, edges, present));
  }
  picture.setAttribute("preserveAspectRatio", "xMidYMin");
  picture.setAttribute("viewBox", `-2 -2 ${width + 4} ${size.height + 4}`);
  return picture;
}
