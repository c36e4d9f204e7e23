/** Elements of the page. Text is only ever set as text, so markup in it stays text. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** An HTML element. */
export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A line of SVG text. */
export function label(text, x, y, attributes = {}) {
  return svg("text", { x, y, ...attributes }, String(text));
}

/** A square around a point whose area is `gain` times a share of a cell. */
export function square(share, gain, cell, [x, y], attributes) {
  const side = cell * Math.sqrt(gain * share);
  const place = { x: x - side / 2, y: y - side / 2, width: side, height: side };
  return svg("rect", { "data-share": share.toFixed(7), ...place, ...attributes });
}

/** The element of the page with that id. */
export function find(id) {
  return document.getElementById(id);
}
