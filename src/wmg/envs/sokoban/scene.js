/** Sokoban: walls, floor, targets as rings, boxes with a cross (a tick when stored), the player. */

import { svg } from "./make.js";

const SIDE = 320;

function cellOf(scene) {
  return SIDE / scene.size;
}

function drawCell(letter, x, y, cell) {
  const parts = [
    svg("rect", { x, y, width: cell, height: cell, class: letter === "#" ? "wall" : "floor" }),
    svg("rect", { x, y, width: cell, height: cell, class: "grid" }),
  ];
  const [cx, cy, r] = [x + cell / 2, y + cell / 2, cell / 2];
  if (".*+".includes(letter)) {
    parts.push(
      svg("circle", {
        class: "target",
        cx,
        cy,
        r: r * 0.42,
        fill: "none",
        stroke: "#f0e442",
        "stroke-width": cell * 0.09,
      }),
    );
  }
  if ("$*".includes(letter)) {
    const stored = letter === "*";
    const mark = stored
      ? `M${cx - r * 0.35},${cy}l${r * 0.28},${r * 0.3}l${r * 0.5},${-r * 0.6}`
      : `M${cx - r * 0.4},${cy - r * 0.4}l${r * 0.8},${r * 0.8}m0,${-r * 0.8}l${-r * 0.8},${r * 0.8}`;
    parts.push(
      svg("rect", {
        class: "box",
        x: x + cell * 0.14,
        y: y + cell * 0.14,
        width: cell * 0.72,
        height: cell * 0.72,
        rx: cell * 0.08,
        fill: stored ? "#009e73" : "#c98a4b",
        stroke: "#00000088",
      }),
      svg("path", { d: mark, fill: "none", stroke: "#fff", "stroke-width": cell * 0.08 }),
    );
  }
  if ("@+".includes(letter)) {
    parts.push(
      svg("circle", {
        class: "player",
        cx,
        cy,
        r: r * 0.62,
        fill: "#56b4e9",
        stroke: "#fff",
        "stroke-width": cell * 0.05,
        "data-x": Math.round(x / cell),
        "data-y": Math.round(y / cell),
      }),
    );
  }
  return parts;
}

export const drawing = {
  measure: (scene) => ({ width: SIDE, height: SIDE, cell: cellOf(scene) }),
  draw(scene) {
    const cell = cellOf(scene);
    const cells = scene.board.flatMap((row, y) =>
      [...row].flatMap((letter, x) => drawCell(letter, x * cell, y * cell, cell)),
    );
    return svg("g", { class: "warehouse", "data-board": scene.board.join("/") }, ...cells);
  },
  centre: ([x, y], scene) => [(x + 0.5) * cellOf(scene), (y + 0.5) * cellOf(scene)],
  legend:
    "The blue disc is the player, rings are targets; a box is brown with a cross, or green with a " +
    "tick when it is on a target.",
};
