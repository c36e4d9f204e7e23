/** Pathfinding: the graph so far, as a circle of patterns; what is shown, and what answers it. */

import { label, svg } from "./make.js";

const SIDE = 320;
const RADIUS = 118;

function centre(node, size) {
  const angle = (2 * Math.PI * node) / size;
  return [SIDE / 2 + RADIUS * Math.sin(angle), SIDE / 2 - RADIUS * Math.cos(angle)];
}

function arrow([x1, y1], [x2, y2], gap, attributes) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
  const [tx, ty] = [x2 - gap * dx, y2 - gap * dy];
  const head = `M${tx - 9 * dx + 5 * dy},${ty - 9 * dy - 5 * dx}L${tx},${ty}L${tx - 9 * dx - 5 * dy},${ty - 9 * dy + 5 * dx}`;
  return svg("path", {
    d: `M${x1 + gap * dx},${y1 + gap * dy}L${tx},${ty}${head}`,
    fill: "none",
    ...attributes,
  });
}

/** A dashed bow with a question mark, beside whatever link may be there. */
function question([x1, y1], [x2, y2], gap, stroke) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const [mx, my] = [(x1 + x2) / 2 - dy * 0.22, (y1 + y2) / 2 + dx * 0.22];
  const near = (x, y) => {
    const length = Math.hypot(mx - x, my - y);
    return [x + (gap * (mx - x)) / length, y + (gap * (my - y)) / length];
  };
  const [[sx, sy], [ex, ey]] = [near(x1, y1), near(x2, y2)];
  const tip = arrow([mx, my], [x2, y2], gap, { stroke, "stroke-width": 2.5 });
  tip.setAttribute("d", tip.getAttribute("d").replace(/^M[^M]*/, ""));
  return svg(
    "g",
    { class: "shown" },
    tip,
    svg("path", {
      d: `M${sx},${sy}Q${mx},${my} ${ex},${ey}`,
      fill: "none",
      stroke,
      "stroke-width": 2.5,
      "stroke-dasharray": "6 5",
    }),
    label("?", (mx + (x1 + x2) / 2) / 2 - dy * 0.05, (my + (y1 + y2) / 2) / 2 + dx * 0.05 + 5, {
      "text-anchor": "middle",
      class: "question",
    }),
  );
}

function patch(pattern, x, y, side, stroke) {
  const across = Math.ceil(Math.sqrt(pattern.length));
  const cell = side / across;
  const cells = pattern.map((value, i) =>
    svg("rect", {
      x: x - side / 2 + (i % across) * cell,
      y: y - side / 2 + Math.floor(i / across) * cell,
      width: cell,
      height: cell,
      fill: value < 0 ? "var(--low)" : "var(--high)",
      "fill-opacity": Math.abs(value).toFixed(2),
    }),
  );
  const frame = { x: x - side / 2, y: y - side / 2, width: side, height: side };
  return svg(
    "g",
    {},
    svg("rect", { ...frame, fill: "#fff" }),
    ...cells,
    svg("rect", { ...frame, fill: "none", stroke, "stroke-width": 2 }),
  );
}

export const drawing = {
  measure: () => ({ width: SIDE, height: SIDE, cell: 40 }),
  draw(scene) {
    const side = Math.max(8, Math.min(44, (4 * RADIUS) / scene.size));
    const gap = side * 0.72;
    const at = (node) => centre(node, scene.size);
    const colour = scene.quiz ? "var(--human)" : "var(--accent)";
    const picture = svg("g", { class: "graph" });
    const line = (pair, attributes) =>
      picture.append(arrow(at(pair[0]), at(pair[1]), gap, attributes));
    scene.links.forEach((link) =>
      line(link, { class: "link", stroke: "var(--quiet)", "stroke-width": 1.5 }),
    );
    const path = scene.path ?? [];
    for (let i = 1; i < path.length; i++) {
      line([path[i - 1], path[i]], { class: "path", stroke: "var(--good)", "stroke-width": 4.5 });
    }
    const [from, to] = scene.shown.map(at);
    picture.append(
      scene.quiz
        ? question(from, to, gap, colour)
        : arrow(from, to, gap, { class: "shown", stroke: colour, "stroke-width": 3 }),
    );
    scene.patterns.forEach((pattern, node) => {
      const [x, y] = at(node);
      const shown = scene.shown.includes(node);
      picture.append(patch(pattern, x, y, side, shown ? colour : "var(--line)"));
      const [dx, dy] = [(x - SIDE / 2) / RADIUS, (y - SIDE / 2) / RADIUS];
      const reach = side / 2 / Math.max(Math.abs(dx), Math.abs(dy)) + 9; // beyond the patch
      const where = [x + reach * dx, y + reach * dy + 4];
      picture.append(label(node, ...where, { "text-anchor": "middle" }));
    });
    if (scene.quiz) {
      const answer = scene.path ? `yes: ${path.join("→")}` : "no: there is no path";
      picture.append(label(answer, 4, SIDE - 4, { class: "answer" }));
    }
    return picture;
  },
  legend:
    "Patterns are patches of blue (negative) and orange (positive). The blue arrow is this step's " +
    "link, the dashed bow its question, the green path the answer.",
};
