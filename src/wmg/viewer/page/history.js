/** The course of an episode: value, rewards, and which Memo was read when. */

import { countNodes, isVector, writtenAt } from "./episodes.js";
import { label, square, svg } from "./make.js";

const LEFT = 58;
const CURVE = 74;
const ROWS = 8;

function drawValue(picture, steps, time, x, width, whatIf) {
  const values = steps.map((step) => step.thought?.value ?? null);
  const known = [...values, whatIf?.value ?? null, 0].filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const y = (value) => 8 + (CURVE - 16) * (1 - (value - low) / (high - low || 1));
  picture.append(
    svg("line", { class: "axis", x1: LEFT, x2: width, y1: y(0), y2: y(0) }),
    label("value", 2, CURVE / 2),
    label(high.toFixed(2), LEFT - 4, y(high) + 8, { "text-anchor": "end", class: "quiet" }),
  );
  if (low < high)
    picture.append(
      label(low.toFixed(2), LEFT - 4, y(low), { "text-anchor": "end", class: "quiet" }),
    );
  const points = values
    .map((value, t) => (value === null ? null : `${x(t)},${y(value)}`))
    .filter(Boolean);
  picture.append(svg("polyline", { class: "curve", points: points.join(" ") }));
  if (values[time] !== null) {
    const dot = (value, name) => svg("circle", { class: name, cx: x(time), cy: y(value), r: 3.5 });
    picture.append(dot(values[time], whatIf ? "dot was" : "dot"));
    if (whatIf) picture.append(dot(whatIf.value, "dot"));
  }
}

function drawRewards(picture, steps, x) {
  picture.append(label("reward", 2, CURVE + 12));
  steps.forEach((step, t) => {
    if (!step.reward) return;
    const [mid, top] = [(x(t) + x(t + 1)) / 2, CURVE + 2];
    const shape = step.reward > 0 ? `M${mid},${top}l6,10h-12Z` : `M${mid},${top + 10}l6,-10h-12Z`;
    const sign = step.reward > 0 ? "+" : "";
    picture.append(
      svg(
        "path",
        { class: step.reward > 0 ? "reward" : "reward loss", d: shape },
        svg("title", {}, `step ${t}: reward ${sign}${step.reward}`),
      ),
    );
  });
}

/** What happened in each step, in one line, in two by turns if it is narrow, or not: how many lines. */
function drawBriefs(picture, steps, x, column) {
  const briefs = steps.map((step) => step.scene.brief);
  const lines = Math.ceil((5 + 7 * Math.max(...briefs.map((brief) => brief.length))) / column);
  if (lines > 2) return 1;
  briefs.forEach((brief, t) => {
    const y = CURVE + 38 + 12 * (t % lines);
    picture.append(label(brief, x(t), y, { class: "brief", "text-anchor": "middle" }));
  });
  return lines;
}

/** Arcs from the Memos that are read now to this step: the paper's shortcut paths. */
function drawArcs(picture, row, thought, x, time, base, gain) {
  row.forEach((share, slot) => {
    const written = writtenAt(thought, time, slot);
    if (written < 0 || share < 0.002) return;
    const [from, to] = [x(written), x(time)];
    const rise = Math.min(46, 8 + (to - from) / 3);
    picture.append(
      svg("path", {
        class: "arc",
        "stroke-width": Math.max(0.4, 5 * gain * share).toFixed(2),
        "data-written": written,
        d: `M${from},${base}C${from},${base - rise} ${to},${base - rise} ${to},${base}`,
      }),
    );
  });
}

/** The steps whose Memos are gone. Of each it is known what took its place, or nothing. */
function goneMemos(steps, agent, time) {
  const slots = agent.attention.slots - (agent.attention.vectors ?? 0);
  const thought = steps[time].thought;
  if (!thought?.written) {
    return [...Array(Math.max(0, time - slots)).keys()].map((written) => {
      return [written, `was overwritten in step ${written + slots}`];
    });
  }
  const { factors } = countNodes(agent);
  const kept = new Set(
    thought.written.filter((_, i) => i < slots && thought.present[1 + factors + i] === "1"),
  );
  const all = [...Array(time).keys()];
  return all.filter((written) => !kept.has(written)).map((written) => [written, "is gone"]);
}

function drawMemos(picture, rows, steps, agent, x, column, time, gain, top) {
  const cell = Math.max(3, Math.min(column * 0.9, 15));
  const height = Math.max(9, cell);
  const now = rows.get(time);
  const base = top + 48;
  if (now) drawArcs(picture, now, steps[time].thought, x, time, base, gain);
  picture.append(
    label("Memos", 2, base - 24),
    label("read in", 2, base - 12),
    label("step", 2, base),
  );
  for (const [written, fate] of goneMemos(steps, agent, time)) {
    const [cx, cy] = [x(written), base + 4 + height / 2];
    picture.append(
      svg(
        "path",
        { class: "gone", d: `M${cx - 3},${cy - 3}l6,6m0,-6l-6,6`, "data-written": written },
        svg("title", {}, `the Memo of step ${written} ${fate}`),
      ),
    );
  }
  let y = base + 4;
  for (const t of [...rows.keys()].reverse()) {
    picture.append(
      label(t === time ? `now, ${t}` : t, LEFT - 4, y + height / 2 + 3, {
        "text-anchor": "end",
        class: t === time ? "" : "quiet",
      }),
    );
    rows.get(t).forEach((share, slot) => {
      const written = writtenAt(steps[t].thought, t, slot);
      if (written < 0) return;
      const look = { class: isVector(agent, slot) ? "memo vector" : "memo", "data-written": written };
      const drawn = square(share, gain, cell, [x(written), y + height / 2], look);
      drawn.setAttribute("data-read", t);
      drawn.append(
        svg(
          "title",
          {},
          `step ${t} gives the Memo of step ${written} ${(100 * share).toFixed(1)}% of its attention`,
        ),
      );
      picture.append(
        svg("rect", {
          class: "cell",
          x: x(written) - cell / 2,
          y: y + height / 2 - cell / 2,
          width: cell,
          height: cell,
        }),
        drawn,
      );
    });
    y += height + 2;
  }
  return y;
}

/**
 * The history as SVG, `width` pixels wide. `rowOf(t)` are the shares of attention at a step, or null; `whatIf` is a
 * thought to compare with; `seek` is called with a step that is clicked.
 */
export function drawHistory(steps, agent, time, width, rowOf, gain, whatIf, seek) {
  const picture = svg("svg", {
    class: "history",
    role: "img",
    "aria-label": "value, rewards and Memos over the episode",
  });
  const column = (width - LEFT - 16) / Math.max(steps.length, 12);
  const x = (t) => LEFT + 8 + (t + 0.5) * column;
  drawValue(picture, steps, time, x, width, whatIf);
  drawRewards(picture, steps, x);
  const ticks = Math.max(1, Math.ceil(26 / column));
  steps.forEach((step, t) => {
    if (t % ticks === 0)
      picture.append(label(t, x(t), CURVE + 26, { "text-anchor": "middle", class: "quiet" }));
  });
  picture.append(label("step", 2, CURVE + 26));
  let bottom = CURVE + 32 + 12 * drawBriefs(picture, steps, x, column);
  if (agent.attention?.slots) {
    const { factors } = countNodes(agent);
    const rows = new Map();
    for (let t = Math.max(0, time - ROWS + 1); t <= time; t++) {
      const all = rowOf(t);
      if (all) rows.set(t, [...all.slice(1 + factors)]);
    }
    bottom = drawMemos(picture, rows, steps, agent, x, column, time, gain, bottom);
  }
  picture.prepend(svg("line", { class: "now", x1: x(time), x2: x(time), y1: 2, y2: bottom }));
  picture.setAttribute("viewBox", `0 0 ${width} ${bottom + 4}`);
  picture.addEventListener("click", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      picture.getScreenCTM().inverse(),
    );
    seek(Math.floor((at.x - LEFT - 8) / column));
  });
  return picture;
}
