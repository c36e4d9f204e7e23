/** Talking to the server that holds the agents. */

import { check } from "./episodes.js";

/** The state of the episode that this page knows: the server refuses if another page changed it. */
let turn = null;

async function send(message) {
  const request = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(message),
  };
  const response = await fetch("message", request).catch(() => {
    throw new Error("wmg view does not answer: it may have been ended");
  });
  const answer = await response
    .json()
    .catch(() => ({ error: "wmg view failed: its terminal says why" }));
  if (!response.ok) throw new Error(answer.error);
  turn = answer.turn ?? turn;
  return answer;
}

/** The file with the episode that is being played. */
export async function show() {
  return check(await send({ do: "show" }));
}

/** Start an episode: by its seed, or by one of the environment's own choices. */
export async function begin(choice, value) {
  return check(await send({ do: "begin", choice, value }));
}

/** Go on from a step, by an action or, with null, as each agent chooses. */
export function act(time, action, off) {
  return send({ do: "act", time, action, off, turn });
}

/** The vectors of the edges from a node to all nodes, at a step. */
export function edges(track, time, node) {
  return send({ do: "edges", track, time, node, turn });
}

/** What an agent would think at a step without some of its nodes. */
export function think(track, time, off) {
  return send({ do: "think", track, time, off, turn });
}
