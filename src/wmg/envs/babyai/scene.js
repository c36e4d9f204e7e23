/** BabyAI: the room, lit where the agent sees it. Letters name colours, shapes name things. */

import { label, svg } from "./make.js";

const CELL = 40;
const COLOURS = {
  red: "#e8503a",
  green: "#009e73",
  blue: "#3d8fe0",
  purple: "#cc79a7",
  yellow: "#f0e442",
  grey: "#b4b8bc",
};
const INITIALS = { red: "R", green: "G", blue: "B", purple: "P", yellow: "Y", grey: "gr" };

const SHAPES = {
  ball: () => svg("circle", { cx: 20, cy: 20, r: 12.5 }),
  box: () =>
    svg("path", { d: "M7,7H33V33H7ZM11,11V18H29V11ZM11,22V29H29V22Z", "fill-rule": "evenodd" }),
  key: () =>
    svg("path", {
      d: "M18,4a8,8 0 1 0 .01,0ZM18,8.5a3.5,3.5 0 1 1 -.01,0ZM16,19H20.5V24H27V27.5H20.5V31H27V35H16Z",
      "fill-rule": "evenodd",
    }),
};

function place(thing, agent) {
  if (!thing.carried) return `translate(${CELL * thing.at[0]},${CELL * thing.at[1]})`;
  return `translate(${CELL * agent[0] + 10},${CELL * agent[1] + 10}) scale(0.5)`;
}

function drawThing(thing, agent) {
  const group = svg(
    "g",
    { class: "thing", transform: place(thing, agent), fill: COLOURS[thing.colour] },
    SHAPES[thing.type](),
    svg("title", {}, `${thing.colour} ${thing.type}`),
  );
  group.append(label(INITIALS[thing.colour], 35, 13, { "text-anchor": "end", class: "initial" }));
  if (thing.target) {
    group.append(
      svg("rect", {
        x: 2,
        y: 2,
        width: 36,
        height: 36,
        rx: 6,
        fill: "none",
        stroke: "#f0e442",
        "stroke-width": 1.5,
        "stroke-dasharray": "4 3",
      }),
    );
  }
  return group;
}

export const drawing = {
  measure: (scene) => ({ width: scene.size * CELL, height: scene.size * CELL, cell: CELL }),
  draw(scene) {
    const seen = new Set(scene.seen.map(String));
    const picture = svg("g", { class: "room" });
    for (let y = 0; y < scene.size; y++) {
      for (let x = 0; x < scene.size; x++) {
        const edge = x === 0 || y === 0 || x === scene.size - 1 || y === scene.size - 1;
        const unseen = seen.has(String([x, y])) ? "" : " unseen";
        const square = { x: x * CELL, y: y * CELL, width: CELL, height: CELL };
        picture.append(
          svg("rect", { ...square, class: (edge ? "wall" : "floor") + unseen }),
          svg("rect", { ...square, class: "grid" }),
        );
      }
    }
    const [x, y] = scene.agent;
    picture.append(
      svg("path", {
        class: "agent",
        d: "M-14,-15L17,0L-14,15Z",
        fill: "#ff5a4d",
        stroke: "#fff",
        "stroke-width": 1,
        "data-x": x,
        "data-y": y,
        "data-direction": scene.direction,
        transform: `translate(${(x + 0.5) * CELL},${(y + 0.5) * CELL}) rotate(${90 * scene.direction})`,
      }),
    );
    picture.append(...scene.things.map((thing) => drawThing(thing, scene.agent)));
    return picture;
  },
  /** The middle of a Factor's cell. */
  centre: ([x, y]) => [(x + 0.5) * CELL, (y + 0.5) * CELL],
  legend:
    "The triangle is the agent, the lighter cells are what it sees. A dashed frame marks what the " +
    "mission means; letters name colours (gr: grey).",
};
