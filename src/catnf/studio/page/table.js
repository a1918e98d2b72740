// Unusual rows of an uploaded table.

import { ask, during, make, number, onSend, say } from "/page/common.js";

const WAIT = 400; // milliseconds between looks at the progress

export function startTable(section, about) {
  const form = section.querySelector("form");
  const bar = section.querySelector(".progress");
  const result = section.querySelector(".scroll");
  const { limits } = about;
  section.querySelector("#table-limits").textContent =
    `At most ${limits.upload / 1e6} MB, ${number(limits.rows)} rows and ${limits.columns} columns.`;
  let job = null;

  async function find(file) {
    result.hidden = true;
    if (file.size > limits.upload) {
      const [own, most] = [(file.size / 1e6).toFixed(1), limits.upload / 1e6];
      throw new Error(`${file.name} has ${own} MB; give at most ${most} MB.`);
    }
    let told = await ask(`/api/table?name=${encodeURIComponent(file.name)}`, "POST", file);
    job = told.id;
    bar.hidden = false;
    try {
      while (told.state === "running") {
        bar.querySelector("progress").value = told.share;
        say(section, `${file.name}: ${told.doing} …`, "busy");
        await new Promise((done) => setTimeout(done, WAIT));
        told = await ask(`/api/table/${job}`);
      }
    } finally {
      bar.hidden = true;
      job = null;
    }
    if (told.state === "failed") throw new Error(told.problem);
    if (told.state === "stopped") return say(section, "Stopped.");
    show(told.result, told.seconds);
  }

  function show(found, seconds) {
    const title = (...words) => make("th", { scope: "col" }, ...words);
    const ranks = (word) => make("th", { scope: "col", class: "number" }, word);
    const columns = found.columns.map((column, at) => title(column, make("small", {}, found.kinds[at])));
    const head = make("tr", {}, ranks("line"), ranks("log-likelihood"), ...columns);
    const rows = found.rows.map((row) =>
      make(
        "tr",
        {},
        make("td", { class: "number" }, number(row.line)),
        make("td", { class: "number" }, row.log_likelihood.toFixed(2)),
        ...row.cells.map((cell) => make("td", cell === "" ? { class: "gap" } : {}, cell || "gap")),
      ),
    );
    result.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
    result.hidden = false;
    const notes = found.notes.length ? ` ${found.notes.join(" ")}` : "";
    say(
      section,
      `The ${rows.length} least likely of ${number(found.total)} rows, after ${number(found.steps)} steps; ` +
        `${Math.round(seconds)} s in all. ` +
        `Half of the rows have more than ${found.median.toFixed(2)} nats.${notes}`,
    );
  }

  onSend(section, () =>
    during(section, "Reading …", async () => {
      const file = form.file.files[0];
      if (!file) throw new Error("No table is chosen; choose a .csv or .tsv file, or try the example.");
      await find(file);
    }),
  );
  section.querySelector("[data-example]").addEventListener("click", () =>
    during(section, "Reading …", () => find(new File([example()], "orchard.csv", { type: "text/csv" }))),
  );
  section.querySelector("[data-stop]").addEventListener("click", () => {
    if (job === null) return;
    ask(`/api/table/${job}`, "DELETE").catch((error) => say(section, error.message, "error"));
  });
}

/** A table of fruit whose color, taste and weight follow from their kind, but for three rows. */
function example() {
  const fruits = {
    lemon: ["yellow", "sour", 110],
    lime: ["green", "sour", 70],
    cherry: ["red", "sweet", 8],
    plum: ["purple", "sweet", 65],
    banana: ["yellow", "sweet", 120],
  };
  const kinds = Object.keys(fruits);
  const lines = ["fruit,color,taste,grams"];
  let state = 1;
  const draw = () => (state = (state * 48271) % 2147483647) / 2147483647;
  for (let row = 0; row < 500; row++) {
    const kind = kinds[Math.floor(draw() * kinds.length)];
    const [color, taste, grams] = fruits[kind];
    lines.push([kind, color, taste, (grams * (0.85 + 0.3 * draw())).toFixed(1)].join(","));
  }
  lines[101] = "cherry,red,sweet,118.5";
  lines[202] = "banana,purple,sour,121.0";
  lines[303] = "lemon,yellow,sweet,9.1";
  return lines.join("\n") + "\n";
}
