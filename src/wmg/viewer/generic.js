/** Any environment: its picture if it has one, and numbers in rows. */

import { label, svg } from "./make.js";

const WIDTH = 320;
const CELL = 20;
const NAME = 70;
const NUMBER = 44;
/** Rows of more numbers are strips of colour: written out they would make all else tiny. */
const MOST_WRITTEN = 10;

/** As wide as the picture, or as the longest row that is written out. */
function widthOf(scene) {
  const lengths = scene.rows.map(({ numbers }) => numbers.length);
  const longest = Math.max(0, ...lengths.filter((length) => length <= MOST_WRITTEN));
  return Math.max(WIDTH, CELL + NAME + NUMBER * longest);
}

function pictureHeight(scene) {
  return scene.picture ? (widthOf(scene) * scene.picture.height) / scene.picture.width : 0;
}

function write(numbers, middle) {
  return numbers.map((number, i) =>
    label(number, CELL + NAME + (i + 1) * NUMBER - 4, middle + 4, { "text-anchor": "end" }),
  );
}

/** A cell for each number: blue where it is negative, orange where it is positive. */
function paint(numbers, top, width) {
  const across = (width - CELL - NAME) / numbers.length;
  const most = Math.max(1, ...numbers.map(Math.abs));
  return numbers.map((number, i) =>
    svg(
      "rect",
      {
        class: "number",
        x: CELL + NAME + i * across,
        y: top + 2,
        width: across,
        height: CELL - 4,
        fill: number < 0 ? "var(--low)" : "var(--high)",
        "fill-opacity": (Math.abs(number) / most).toFixed(2),
      },
      svg("title", {}, `number ${i + 1}: ${number}`),
    ),
  );
}

function drawRow({ name, numbers }, top, width) {
  const middle = top + CELL / 2;
  const short = numbers.length <= MOST_WRITTEN;
  return svg(
    "g",
    { class: "row" },
    svg("rect", { class: "floor", x: 1, y: top + 1, width: CELL - 2, height: CELL - 2 }),
    label(name, CELL + 6, middle + 4),
    ...(short ? write(numbers, middle) : paint(numbers, top, width)),
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
    const rows = scene.rows.map((row, i) => drawRow(row, height + i * CELL, width));
    return svg("g", { class: "generic" }, picture, ...rows);
  },
  /** The middle of the cell before a Factor's row. */
  centre: ([row], scene) => [CELL / 2, pictureHeight(scene) + (row + 0.5) * CELL],
  legend:
    "This environment has no drawing of its own. Shown are its picture, if it has one, and the " +
    "numbers that the agent sees: those of the Core, and a row for each Factor. In rows of more " +
    "than ten numbers each is a cell: orange where it is positive, blue where it is negative.",
};
