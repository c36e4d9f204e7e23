/** Any environment: its picture if it has one, and numbers in rows. */

import { label, svg } from "./make.js";

const WIDTH = 320;
const CELL = 20;
const NAME = 70;
const NUMBER = 44;

/** As wide as the picture, or as the longest row. */
function widthOf(scene) {
  const longest = Math.max(0, ...scene.rows.map(({ numbers }) => numbers.length));
  return Math.max(WIDTH, CELL + NAME + NUMBER * longest);
}

function pictureHeight(scene) {
  return scene.picture ? (widthOf(scene) * scene.picture.height) / scene.picture.width : 0;
}

function drawRow({ name, numbers }, top) {
  const middle = top + CELL / 2;
  return svg(
    "g",
    { class: "row" },
    svg("rect", { class: "floor", x: 1, y: top + 1, width: CELL - 2, height: CELL - 2 }),
    label(name, CELL + 6, middle + 4),
    ...numbers.map((number, i) =>
      label(number, CELL + NAME + (i + 1) * NUMBER - 4, middle + 4, { "text-anchor": "end" }),
    ),
  );
}

export const drawing = {
  measure: (scene) => ({
    width: widthOf(scene),
    height: Math.max(160, pictureHeight(scene) + CELL * scene.rows.length),
    cell: CELL,
  }),
  draw(scene) {
    const [width, height] = [widthOf(scene), pictureHeight(scene)];
    const picture =
      scene.picture && svg("image", { class: "picture", href: scene.picture.data, width, height });
    const rows = scene.rows.map((row, i) => drawRow(row, height + i * CELL));
    return svg("g", { class: "generic" }, picture, ...rows);
  },
  /** The middle of the cell before a Factor's row. */
  centre: ([row], scene) => [CELL / 2, pictureHeight(scene) + (row + 0.5) * CELL],
  legend:
    "This environment has no drawing of its own. Shown are its picture, if it has one, and the " +
    "numbers that the agent sees: those of the Core, and a row for each Factor.",
};
