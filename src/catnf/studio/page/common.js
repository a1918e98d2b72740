// What all parts of the page share: asking the server, and telling what came of it.

/** What the server answers; an error whose message is its sentence where it refuses. */
export async function ask(path, method = "GET", body = undefined) {
  const options = { method };
  if (body instanceof Blob) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "content-type": "application/json" };
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The studio does not answer; is catnf studio still running?");
  }
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(told.problem ?? `The studio answered ${response.status}.`);
  return told;
}

/** Shows a sentence in a section: kind is "", "busy" or "error". */
export function say(section, sentence, kind = "") {
  const place = section.querySelector(".message");
  place.className = `message ${kind}`;
  place.textContent = sentence;
}

/** Runs something with the section's form switched off, and shows why where it fails. */
export async function during(section, doing, work) {
  const buttons = [...section.querySelectorAll("form button")].filter((button) => !button.disabled);
  for (const button of buttons) button.disabled = true;
  section.setAttribute("aria-busy", "true");
  say(section, doing, "busy");
  try {
    await work();
  } catch (error) {
    say(section, error.message, "error");
  } finally {
    for (const button of buttons) button.disabled = false;
    section.removeAttribute("aria-busy");
  }
}

/** Calls `work` when a form is sent, and with the next seed when its second button is pressed. */
export function onSend(section, work) {
  const form = section.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    work(form);
  });
  form.querySelector("[data-next]")?.addEventListener("click", () => {
    form.seed.value = (Number(form.seed.value) + 1) % 2 ** 32;
    form.requestSubmit();
  });
}

/** An element with attributes and children, which may be text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Numbers with a thousands separator. */
export const number = (value) => value.toLocaleString("en");
