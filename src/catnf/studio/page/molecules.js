// Drawing molecules, and walking between two of them.

import { ask, during, make, onSend, say } from "/page/common.js";

function card(molecule, line) {
  const item = make("li", molecule.valid ? {} : { class: "invalid" });
  const alt = `${molecule.valid ? "Molecule" : "Not a valid molecule"} ${molecule.smiles}`;
  item.append(make("img", { src: molecule.picture, alt, width: 260, height: 260 }));
  item.append(make("code", {}, molecule.smiles), make("span", {}, line));
  if (!molecule.valid) item.append(make("strong", {}, "not valid"));
  return item;
}

export function startMolecules(section) {
  const cards = section.querySelector(".cards");
  onSend(section, (form) =>
    during(section, "Drawing …", async () => {
      const told = await ask("/api/molecules", "POST", {
        model: form.model.value,
        count: Number(form.count.value),
        temperature: Number(form.temperature.value),
        seed: Number(form.seed.value),
      });
      const line = (one) => `${one.bits.toFixed(2)} bits per atom`;
      cards.replaceChildren(...told.molecules.map((one) => card(one, line(one))));
      const total = told.molecules.length;
      say(section, `${told.valid} of ${total} are valid. More bits per atom are more unusual.`);
    }),
  );
}

export function startPath(section) {
  const cards = section.querySelector(".cards");
  onSend(section, (form) =>
    during(section, "Walking …", async () => {
      const told = await ask("/api/path", "POST", {
        model: form.model.value,
        first: form.first.value,
        second: form.second.value,
        steps: Number(form.steps.value),
        seed: Number(form.seed.value),
      });
      const line = (one) => `${Math.round(100 * one.share)} % of the way`;
      cards.replaceChildren(...told.steps.map((one) => card(one, line(one))));
      const missed = told.steps.some((one) => !one.reached);
      const note = missed ? " An end did not come back as it was given; try another way." : "";
      say(section, `${told.valid} of ${told.steps.length} are valid.${note}`);
    }),
  );
}
