/** Recorded episodes: reading them, and what their numbers say. The format is in docs/viewer.md. */

const FORMAT = "wmg-episodes";
const VERSION = 1;
const FIRST_CHARACTER = 35;

/** The file, if it is one that this page can show. */
export function check(file) {
  if (file.format !== FORMAT || file.version !== VERSION) {
    throw new Error(
      `this page shows ${FORMAT} version ${VERSION}, not ${file.format} ${file.version}`,
    );
  }
  return file;
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** The file inside an exported page: JSON, compressed, in base64. */
export async function unpackFile(text) {
  const packed = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return check(JSON.parse(await new Response(packed).text()));
}

/** Attention probabilities, by layer, head and node in one row. */
export function unpackAttention(text, precision) {
  if (precision === "float32") return new Float32Array(bytes(text).buffer);
  return Float32Array.from(
    text,
    (character) => ((character.charCodeAt(0) - FIRST_CHARACTER) / 255) ** 2,
  );
}

/** How many nodes of each kind an agent has: one Core, then Factors, then memory. */
export function countNodes(agent) {
  const factors = agent.attention.factors.reduce((sum, [, count]) => sum + count, 0);
  return { factors, slots: agent.attention.slots, all: 1 + factors + agent.attention.slots };
}

/** The layers that a choice means: "above" is all above the lowest, as in the paper. */
export function chosenLayers(choice, layers) {
  const all = [...Array(layers).keys()];
  if (choice === "all") return all;
  if (choice === "above") return layers > 1 ? all.slice(1) : all;
  return [Number(choice)];
}

/** The share of the attention counted that each node gets. They add up to 1. */
export function shares(thought, agent, precision, layer, head) {
  if (thought.attention === null) return null;
  const { layers, heads } = agent.attention;
  const nodes = countNodes(agent).all;
  const attention = unpackAttention(thought.attention, precision);
  const chosen = chosenLayers(layer, layers);
  const counted = head === "all" ? [...Array(heads).keys()] : [Number(head)];
  const sums = new Float64Array(nodes);
  for (const l of chosen) {
    for (const h of counted) {
      for (let n = 0; n < nodes; n++) sums[n] += attention[(l * heads + h) * nodes + n];
    }
  }
  return sums.map((sum) => sum / (chosen.length * counted.length));
}

/**
 * The step that wrote what a memory node holds; negative: the zeros of the start. A thought says it
 * for each node unless Memos are written and forgotten in turn.
 */
export function writtenAt(thought, time, slot) {
  return thought?.written ? thought.written[slot] : time - 1 - slot;
}

/** Whether a memory node is read from the store: these come last. */
export function isVector(agent, slot) {
  return slot >= agent.attention.slots - (agent.attention.vectors ?? 0);
}
