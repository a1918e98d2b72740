// Continuing a text, where there is a model of texts.

import { ask, during, onSend, say } from "/page/common.js";

export function startText(section, about) {
  const absent = section.querySelector(".absent");
  if (about.text.problem) {
    absent.textContent = about.text.problem;
    return;
  }
  const quote = section.querySelector("blockquote");
  absent.textContent = `The model is ${about.text.name}.`;
  section.querySelector("form").hidden = false;
  onSend(section, (form) =>
    during(section, "Writing …", async () => {
      const told = await ask("/api/text", "POST", {
        prompt: form.prompt.value,
        symbols: Number(form.symbols.value),
        temperature: Number(form.temperature.value),
        seed: Number(form.seed.value),
      });
      quote.textContent = told.text;
      quote.hidden = false;
      say(section, told.notes.join(" "));
    }),
  );
}
