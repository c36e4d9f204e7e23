/** The policy of an agent as bars, each of which is also the button of its action. */

import { html } from "./make.js";

const KEYCAPS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };

/** A key as it is called on the page. */
export function keycap(key) {
  return KEYCAPS[key] ?? (key.length === 1 ? key.toUpperCase() : key);
}

function bar(share, name) {
  const drawn = html("span", { class: name });
  drawn.style.width = `${100 * share}%`;
  return drawn;
}

/** Bars of a thought; `was` is the thought before something was switched off. */
export function drawPolicy(actions, step, thought, was, act) {
  const rows = actions.map(({ name, key }, i) => {
    const share = thought ? thought.policy[i] : null;
    const chosen = thought?.choice === i;
    const mine = step.human && step.action === i;
    const row = html(
      "button",
      {
        type: "button",
        class: `action${chosen ? " chosen" : ""}${mine ? " human" : ""}`,
        "data-action": i,
        "data-share": share,
        title: key ? `${name} (${keycap(key)})` : name,
        disabled: act ? null : "",
      },
      html("span", {}, `${name} `, html("kbd", {}, keycap(key))),
      html(
        "span",
        { class: "share" },
        bar(share ?? 0, "bar"),
        was ? bar(was.policy[i], "bar was") : null,
      ),
      html("span", { class: "percent" }, share === null ? "" : `${(100 * share).toFixed(1)}%`),
    );
    if (act) row.addEventListener("click", () => act(i));
    return row;
  });
  const name = step.scene.asks === false ? "policy unasked" : "policy";
  return html("div", { class: name, role: "group", "aria-label": "policy" }, ...rows);
}

/** What the agent chooses, what was done, what came of it. */
export function drawMarks(actions, step, thought, was) {
  const marks = html("div", { class: "marks" });
  const say = (text, name) => marks.append(html("div", { class: name ?? null }, text));
  if (step.end) {
    say(step.end, step.end);
    return marks;
  }
  const would = actions[thought.choice].name;
  if (step.human)
    say(`The agent would have done: ${would}. You did: ${actions[step.action].name}.`);
  else if (step.scene.asks === false)
    say("Nothing is asked in this step: every action does the same.");
  else
    say(
      step.action === null
        ? `The agent would do: ${would}.`
        : `The agent did: ${actions[step.action].name}.`,
    );
  const change = was ? ` (${was.value.toFixed(3)} with all nodes)` : "";
  say(`Value ${thought.value.toFixed(3)}${change}.`);
  if (step.reward) say(`Reward ${step.reward}.`);
  return marks;
}
