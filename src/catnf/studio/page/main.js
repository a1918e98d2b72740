// Starts every part of the page with what the server offers.

import { ask, make, say } from "/page/common.js";
import { startGraph } from "/page/graph.js";
import { startMolecules, startPath } from "/page/molecules.js";
import { startTable } from "/page/table.js";
import { startText } from "/page/text.js";

const section = (name) => document.getElementById(name);

/** Upper bounds of the numbers one can ask for. */
function bound(limits) {
  const { molecules: count, steps, colorings: samples, symbols } = limits;
  const most = { count, steps, samples, symbols };
  for (const [name, value] of Object.entries(most)) {
    for (const input of document.querySelectorAll(`input[name=${name}]`)) {
      input.max = value;
      input.title = `At most ${value}`;
    }
  }
  for (const input of document.querySelectorAll("input[name=temperature]")) {
    input.min = limits.coldest;
    input.max = limits.hottest;
    input.title = `${limits.coldest} to ${limits.hottest}`;
  }
  for (const input of document.querySelectorAll("input[name=first], input[name=second]")) {
    input.maxLength = limits.smiles;
  }
  document.querySelector("textarea[name=prompt]").maxLength = limits.prompt;
}

try {
  const about = await ask("/api/about");
  bound(about.limits);
  for (const select of document.querySelectorAll("select[name=model]")) {
    const known = [...about.molecules].reverse(); // the model of Zinc250k first
    select.append(...known.map((name) => make("option", { value: name }, name)));
  }
  startMolecules(section("molecules"));
  startPath(section("path"));
  startGraph(section("graph"), about);
  startTable(section("table"), about);
  startText(section("text"), about);
  document.documentElement.dataset.ready = "true";
} catch (error) {
  for (const part of document.querySelectorAll("section")) say(part, error.message, "error");
}
