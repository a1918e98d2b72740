// Continuing a text.

import { ask, during, onSend, say } from "/page/common.js";

export function startText(section, about) {
  const quote = section.querySelector("blockquote");
  section.querySelector(".model").textContent = `The model is ${about.text}.`;
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
