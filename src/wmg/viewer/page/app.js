/** The page: what is shown, and what people do to it. */

import { countNodes, isVector, shares, unpackFile, writtenAt } from "./episodes.js";
import { drawHistory } from "./history.js";
import * as live from "./live.js";
import { find, html } from "./make.js";
import { drawScene } from "./overlay.js";
import { drawMarks, drawPolicy, keycap } from "./policy.js";
import { drawing } from "./scene.js";

let file = null;
let isLive = false;
let episode = 0;
let time = 0;
let timer = null;
let busy = false;
let panels = [];

const tracks = () => file.episodes[episode].tracks;
const last = () => Math.max(...tracks().map((steps) => steps.length - 1));
const isOver = () => tracks().every((steps) => steps.at(-1).end !== null);
const gain = () => 2 ** Number(find("gain").value);
/** A track that has ended stays at its last step. */
const timeOf = (steps) => Math.min(time, steps.length - 1);

/** A panel for each agent: what is chosen in it, and where things go. */
function makePanel(agent, index) {
  const panel = { agent, index, layer: "above", head: "all", off: new Set(), whatIf: null };
  const about = agent.parameters
    ? `${agent.kind}, ${agent.parameters.toLocaleString("en")} parameters`
    : agent.kind;
  panel.settings = html("div", { class: "settings" });
  if (agent.attention) {
    const numbers = (count) => [...Array(count).keys()].map((i) => [String(i), i + 1]);
    const { layers, heads } = agent.attention;
    panel.settings.append(
      picker(
        "layer",
        [["above", "all above the lowest"], ["all", "all"], ...numbers(layers)],
        (value) => {
          panel.layer = value;
        },
      ),
      picker("head", [["all", "all"], ...numbers(heads)], (value) => {
        panel.head = value;
      }),
    );
  }
  if (isLive && agent.attention?.edges) {
    panel.settings.append(
      picker("edges of", [["", "none"], ...nodeNames(agent)], (value) => {
        panel.node = value;
      }),
    );
  }
  if (agent.attention?.switchable) {
    panel.reset = html("button", { type: "button", class: "all-on", hidden: "" }, "all nodes on");
    panel.reset.addEventListener("click", () => {
      panel.off.clear();
      render();
    });
    panel.settings.append(panel.reset);
  }
  if (!agent.attention) {
    panel.settings.append("This agent has no attention to show.");
  }
  panel.scene = html("div", { class: "scene" });
  panel.side = html("div", { class: "side" });
  panel.says = html("div", { class: "says" });
  panel.history = html("div", { class: "course" });
  panel.side.append(panel.says, panel.history);
  panel.root = html(
    "article",
    { class: "track", "aria-label": agent.name },
    html("h2", {}, agent.name, " ", html("small", {}, about)),
    panel.settings,
    html("div", { class: "parts" }, panel.scene, panel.side),
  );
  return panel;
}

function picker(name, options, choose) {
  const select = html(
    "select",
    { "data-pick": name },
    ...options.map(([value, text]) => html("option", { value }, String(text))),
  );
  select.addEventListener("change", () => {
    choose(select.value);
    render();
  });
  return html("label", {}, `${name} `, select);
}

/** Nodes are switched off by what they are: a Factor or memory vector of one step, a Memo while it lives. */
function nodeKey(panel, node, t) {
  const { factors } = countNodes(panel.agent);
  const slot = node - 1 - factors;
  if (slot < 0) return `factor ${node} ${t}`;
  if (isVector(panel.agent, slot)) return `vector ${slot} ${t}`;
  const { thought } = tracks()[panel.index][t];
  return `memo ${writtenAt(thought, t, slot)}`;
}

function offNodes(panel, t) {
  if (!panel.agent.attention) return [];
  const nodes = [...Array(countNodes(panel.agent).all).keys()].slice(1);
  return nodes.filter((node) => panel.off.has(nodeKey(panel, node, t)));
}

function toggle(panel, node, t) {
  const key = nodeKey(panel, node, t);
  if (!panel.off.delete(key)) panel.off.add(key);
  render();
}

/** Draw a panel anew, and leave the keyboard where it was. */
function keepFocus(panel, draw) {
  const { node, action } = panel.root.contains(document.activeElement)
    ? document.activeElement.dataset
    : {};
  draw();
  if (node) panel.root.querySelector(`.node[data-node="${node}"]`)?.focus();
  if (action) panel.root.querySelector(`.action[data-action="${action}"]`)?.focus();
}

/** The thought to show, and the one to compare it with: after switching, the server is asked. */
function thoughts(panel, step, t) {
  const off = offNodes(panel, t);
  if (!step.thought || !off.length || String(step.thought.off) === String(off)) {
    return { thought: step.thought, was: null };
  }
  const asked = `${t} ${off}`;
  const { whatIf } = panel;
  if (whatIf?.asked === asked && whatIf.thought)
    return { thought: whatIf.thought, was: step.thought };
  if (whatIf?.asked !== asked) {
    run(async () => {
      panel.whatIf = { asked, thought: null }; // so that a question that fails is not asked again
      panel.whatIf.thought = await live.think(panel.index, t, off);
    });
  }
  return { thought: step.thought, was: null };
}

/** The edges of the node that is chosen in a panel: the server is asked once for each step. */
function edgesOf(panel, t) {
  if (!panel.node || !tracks()[panel.index][t].thought) return null;
  const asked = `${t} ${panel.node}`;
  if (panel.edges?.asked !== asked) {
    run(async () => {
      const edges = { asked, node: Number(panel.node), vectors: null };
      panel.edges = edges; // so that a question that fails is not asked again
      edges.vectors = (await live.edges(panel.index, t, edges.node)).edges;
    });
  }
  return panel.edges?.asked === asked && panel.edges.vectors ? panel.edges : null;
}

/** What each node is called where one is chosen. */
function nodeNames(agent) {
  const { factors } = countNodes(agent);
  const names = agent.attention.factors.flatMap(([name, count]) => Array(count).fill(name));
  return [...Array(countNodes(agent).all).keys()].map((node) => {
    if (node === 0) return [node, "Core"];
    if (node <= factors) return [node, `${names[node - 1]} ${node}`];
    return [node, `memory ${node - factors}`];
  });
}

function renderTrack(panel, steps) {
  const t = timeOf(steps);
  const step = steps[t];
  const { thought, was } = thoughts(panel, step, t);
  const off = offNodes(panel, t).length ? offNodes(panel, t) : (step.thought?.off ?? []);
  const rowOf = (s) => {
    const known = s === t ? thought : steps[s].thought;
    return (
      known &&
      panel.agent.attention &&
      shares(known, panel.agent, file.attention, panel.layer, panel.head)
    );
  };
  const switchable =
    isLive && step.thought && panel.agent.attention?.switchable
      ? (node) => toggle(panel, node, t)
      : null;
  const shown = { ...step, thought };
  panel.scene.replaceChildren(
    drawScene(drawing, shown, panel.agent, t, rowOf(t), off, gain(), switchable, edgesOf(panel, t)),
  );
  const act = isLive && step.thought ? (action) => move(action) : null;
  panel.says.replaceChildren(
    drawPolicy(file.actions, step, thought, was, act),
    drawMarks(file.actions, step, thought, was),
  );
  const width = Math.max(280, Math.min(1000, panel.history.clientWidth || 640));
  panel.history.replaceChildren(
    drawHistory(steps, panel.agent, t, width, rowOf, gain(), was && thought, seek),
  );
  if (panel.reset) panel.reset.hidden = panel.off.size === 0;
}

function render() {
  const all = tracks();
  time = Math.max(0, Math.min(time, last()));
  panels.forEach((panel, i) => keepFocus(panel, () => renderTrack(panel, all[i])));
  const { label } = file.episodes[episode];
  find("title").textContent = `${file.title} · ${label}`;
  find("says").textContent = all[0][timeOf(all[0])].scene.says;
  find("clock").textContent = `step ${time} of ${last()}${isOver() ? "" : " so far"}`;
  find("scrub").max = last();
  find("scrub").value = time;
  find("play").textContent = timer ? "⏸ pause" : "▶ play";
  document.body.dataset.time = time;
  document.body.dataset.busy = busy;
}

/** Do one thing at a time, and say what went wrong with it. */
async function run(task) {
  if (busy) return;
  busy = true;
  document.body.dataset.busy = true;
  try {
    await task();
    find("error").hidden = true;
  } catch (error) {
    pause();
    find("error").textContent = error.message;
    find("error").hidden = false;
  }
  busy = false;
  render();
}

function seek(t) {
  time = t;
  render();
}

function show(next) {
  file = next;
  episode = 0;
  time = 0;
  panels.forEach((panel) => panel.off.clear());
  forget();
}

/** Forget what the server answered about steps. */
function forget() {
  panels.forEach((panel) => {
    panel.whatIf = null;
    panel.edges = null;
  });
}

function begin(choice, value) {
  pause();
  return run(async () => show(await live.begin(choice, value)));
}

/** A move by a person, or with null by each agent, from the step that is shown. */
function move(action) {
  if (!isLive) return undefined;
  return run(async () => {
    const off = panels.map((panel, i) => offNodes(panel, timeOf(tracks()[i])));
    const answer = await live.act(time, action, off);
    answer.tracks.forEach(({ time: at, steps }, i) => tracks()[i].splice(at, Infinity, ...steps));
    forget(); // what was asked about steps that are no longer there
    time += 1;
  });
}

/** One step on: as recorded, or where nothing is recorded, as the agents choose. */
function forward() {
  if (time < last()) seek(time + 1);
  else if (isLive && !isOver()) return move(null);
  else pause();
  return undefined;
}

function pause() {
  clearTimeout(timer);
  timer = null;
}

function play() {
  if (timer) pause();
  else {
    if (time === last() && isOver()) time = 0;
    tick();
  }
  render();
}

function tick() {
  timer = setTimeout(
    async () => {
      await forward();
      if (timer && time === last() && isOver()) pause();
      if (timer) tick();
      render();
    },
    1000 / Number(find("speed").value),
  );
}

function another() {
  const { seed } = file.episodes[episode];
  if (isLive) return begin("seed", seed + 1);
  return pick((episode + 1) % file.episodes.length);
}

function again() {
  if (isLive)
    return run(async () => {
      pause();
      show(await live.begin("again", null));
    });
  return seek(0);
}

function pick(index) {
  pause();
  episode = index;
  time = 0;
  find("episode").value = index;
  render();
}

const KEYS = {
  j: ["one step back", () => seek(time - 1)],
  k: ["play or pause", play],
  l: ["one step on", forward],
  Home: ["to the start", () => seek(0)],
  End: ["to the last step", () => seek(last())],
  " ": ["let the agent choose", () => move(null)],
  n: ["new episode", another],
  r: ["the same episode again", again],
};

function onKey(event) {
  const typing = event.target.closest?.("input, select, textarea, button, summary");
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey || event.altKey || !file) return;
  if (typing && (typing.matches("input, select, textarea") || key === " " || key === "Enter"))
    return;
  const action = file.actions.findIndex((one) => one.key === key);
  if (action < 0 && !KEYS[key]) return;
  event.preventDefault();
  if (action >= 0) move(action);
  else KEYS[key][1]();
}

function makeChoice({ name, label, kind, hint }) {
  const input =
    kind === "lines"
      ? html("textarea", { rows: 2, cols: 14, placeholder: hint, name, spellcheck: "false" })
      : html("input", {
          type: kind,
          placeholder: hint,
          name,
          min: kind === "number" ? 0 : null,
          autocomplete: "off",
        });
  const form = html(
    "form",
    {},
    html("label", {}, `${label} `, input),
    html("button", { type: "submit" }, "go"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    begin(name, kind === "number" ? Number(input.value) : input.value);
  });
  return form;
}

const LEGEND = [
  "Squares show what the Core attends to: their areas are proportional to the attention " +
    "probabilities, summed over the chosen layers and heads. On the right are the Core itself and " +
    "the Memos, each with the step that wrote it (–: the zeros of the start).",
  "Below, a row for each of the last steps shows how it attended to the Memo under each earlier " +
    "step. Arcs lead to this step; × marks a Memo that has been overwritten.",
];
const SWITCHES =
  "Click a Memo or a Factor (or Tab to it and press Enter) to switch it off: dashed bars show the " +
  "policy with all nodes.";

function explain() {
  const canSwitch = isLive && file.agents.some((agent) => agent.attention?.switchable);
  const rows = [
    ...file.actions.map(({ name, key }) => [keycap(key), isLive && key ? `do: ${name}` : null]),
    ...Object.entries(KEYS).map(([key, [text]]) =>
      key === " " ? ["space", isLive ? text : null] : [keycap(key), text],
    ),
  ];
  const list = html(
    "ul",
    {},
    ...rows
      .filter(([, text]) => text)
      .map(([key, text]) => html("li", {}, html("kbd", {}, key), ` ${text}`)),
  );
  const texts = [drawing.legend, ...LEGEND, canSwitch ? SWITCHES : ""];
  find("keys").replaceChildren(...texts.map((text) => html("p", {}, text)), list);
}

function connect() {
  const click = (id, action) =>
    find(id).addEventListener("click", (event) => {
      if (event.detail) event.currentTarget.blur(); // so that space is the agent's again
      action();
    });
  click("first", () => seek(0));
  click("back", () => seek(time - 1));
  click("play", play);
  click("forward", forward);
  click("agent", () => move(null));
  click("again", again);
  click("new", another);
  find("scrub").addEventListener("input", () => {
    pause();
    seek(Number(find("scrub").value));
  });
  find("gain").addEventListener("input", render);
  find("episode").addEventListener("change", () => pick(Number(find("episode").value)));
  document.addEventListener("keydown", onKey);
  window.addEventListener("resize", render);
}

async function start() {
  const packed = find("episodes").textContent.trim();
  isLive = packed === "";
  document.body.classList.add(isLive ? "is-live" : "is-recorded");
  file = isLive ? await live.show() : await unpackFile(packed);
  panels = file.agents.map(makePanel);
  find("tracks").replaceChildren(...panels.map((panel) => panel.root));
  find("choices").replaceChildren(...file.choices.map(makeChoice));
  find("episode").replaceChildren(
    ...file.episodes.map((one, i) => html("option", { value: i }, one.label)),
  );
  explain();
  connect();
  render();
  document.body.dataset.ready = true;
}

start().catch((error) => {
  find("error").textContent = error.message;
  find("error").hidden = false;
});
