// What lies behind one tile: its numbers, norms, reliability, ledger and command.
(() => {
  "use strict";
  const A = Atlas, state = A.state, make = A.element;
  const QUANTILES = ["q10", "q25", "q50", "q75", "q90"];

  function open(row, slice, byKeyboard) {
    state.open = { row, slice };
    A.byId("panel").hidden = false;
    draw();
    A.byId("panel").scrollIntoView({ block: "nearest" });
    if (byKeyboard) A.byId("panel").focus({ preventScroll: true });
  }
  function close() {
    A.byId("panel").hidden = true;
    state.open = null;
  }
  function back() {
    close();
    A.byId("map").focus({ preventScroll: true });
  }

  function draw() {
    if (!state.open) { A.byId("panel").hidden = true; return; }
    const { row: place, slice: at } = state.open;
    const family = A.family(), row = family.conditions[place], slice = family.slices[at];
    A.byId("panel-title").textContent = `${A.rowName(row)} · ${A.sliceName(slice)} (n ${A.count(slice.n)})`;
    A.byId("panel-guarantee").textContent = [row.guarantee, ...row.settings,
      `${row.seeds} ${row.seeds === 1 ? "seed" : "seeds"}`].join(" · ");
    numbers(row, place, at);
    norms(row, place, at);
    reliability(row, place, at);
    ledger(place);
    command(row, place);
  }

  function numbers(row, place, at) {
    const head = make("tr", {}, ...["", "mean", "95 % over seeds", "over examples", "n"].map((text) => make("th", { scope: "col" }, text)));
    const body = A.data.metrics[state.split].filter((one) => A.family().values[one.block]).map((one) => {
      const found = A.valueOf(one.key, place, at);
      const span = (low, high) => found && found[low] !== null ? `${A.long(found[low])} to ${A.long(found[high])}` : "–";
      const raw = one.split === "audit" || one.split === "train" && row.part !== "baseline" && row.release === "private";
      return make("tr", {}, make("th", { scope: "row" }, one.title + (raw ? " †" : "")),
        make("td", {}, found ? A.long(found.mean, one.change && row.part !== "baseline") : "–"), make("td", {}, span("low", "high")),
        make("td", {}, span("from", "to")), make("td", {}, found ? A.count(found.n) : "–"));
    });
    A.byId("panel-numbers").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)),
      make("p", { class: "hint" }, `${state.split} split${row.release === "private" && row.part !== "baseline" || body.some((one) => one.textContent.includes("†")) ? "; † diagnostic, not private" : ""}`));
  }

  function norms(row, place, at) {
    const found = (A.family().norms || [])[place];
    const about = A.byId("norms-about"), chart = A.byId("norms");
    chart.hidden = !found;
    if (!found) { about.textContent = "No norms were recorded for these runs, or there was no room for them."; return; }
    const w = found.step.length, size = QUANTILES.length;
    const sides = [["before", A.css("--before")], ["after", A.css("--accent")]];
    const rows = sides.flatMap(([side, colour], s) => found.step.map((step, i) => {
      const entry = { side, colour, step };
      QUANTILES.forEach((name, q) => { entry[name] = found.quantiles[((at * 2 + s) * size + q) * w + i]; });
      return entry;
    })).filter((entry) => QUANTILES.every((name) => entry[name] !== null));
    const threshold = found.step.map((step, i) => ({ step, value: A.at(found.threshold, i), colour: A.css("--ink") })).filter((e) => e.value !== null);
    const label = { private: "diagnostic, not private", accounted: "noised, and inside ε", public: "of public records" }[found.release];
    about.replaceChildren("Grey before, orange after clipping: median, middle half and 80 %",
      threshold.length ? "; dashed: C. " : ". ", `Mean over ${found.runs} ${found.runs === 1 ? "seed" : "seeds"}. `,
      found.release === "private" ? make("span", { class: "tag" }, label) : label);
    if (!rows.length) { about.textContent = "No norms of this slice."; chart.hidden = true; return; }
    A.draw("norms", { norms: rows, threshold }, { listen: (view) => {
      view.addEventListener("mousemove", (event, item) => {
        const d = item && item.datum && item.datum.side ? item.datum : null;
        if (!d || item.mark.marktype !== "symbol") { A.hideTip(); return; }
        A.showTip(event, `${d.side} clipping, step ${d.step}`, [`median ${A.long(d.q50)}`, `25 to 75 %: ${A.long(d.q25)} to ${A.long(d.q75)}`, `10 to 90 %: ${A.long(d.q10)} to ${A.long(d.q90)}`]);
      });
      view.addEventListener("mouseout", A.hideTip);
    } });
  }

  // Wilson's interval for a share of n.
  function wilson(share, n) {
    const z = 1.96, centre = (share + z * z / (2 * n)) / (1 + z * z / n);
    const reach = z / (1 + z * z / n) * Math.sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return [Math.max(0, centre - reach), Math.min(1, centre + reach)];
  }
  function reliability(row, place, at) {
    const found = (A.family().reliability || [])[place];
    const about = A.byId("reliability-about"), chart = A.byId("reliability");
    const bins = A.family().bins, points = [];
    for (let b = 0; found && b < bins; b += 1) {
      const [n, confidence, accuracy] = [0, 1, 2].map((i) => found[(at * 3 + i) * bins + b]);
      if (!n || confidence === null) continue;
      const [low, high] = wilson(accuracy, Math.max(n, 1));
      points.push({ n, confidence, accuracy, low, high, colour: A.css("--accent") });
    }
    chart.hidden = !points.length;
    if (!points.length) { about.textContent = "No predictions of this slice at hand."; return; }
    const total = points.reduce((sum, point) => sum + point.n, 0);
    const ece = A.family().values[`${state.split}/ece`] ? A.valueOf("ece", place, at) : null;
    about.textContent = `Test split, n = ${Math.round(total)} a seed. Below the line: too sure. Bars: 95 % at the n of one seed.`
      + (ece ? ` ECE ${A.long(ece.mean)}${calibrated(place, at)}.` : "");
    const diagonal = [0, 1].map((v) => ({ confidence: v, accuracy: v, colour: A.css("--muted") }));
    A.draw("reliability", { reliability: points, diagonal }, { listen: (view) => {
      view.addEventListener("mousemove", (event, item) => {
        const d = item && item.datum && item.datum.n !== undefined ? item.datum : null;
        if (!d) { A.hideTip(); return; }
        A.showTip(event, `confidence ${A.long(d.confidence)}`, [`accuracy ${A.long(d.accuracy)}`, `95 %: ${A.long(d.low)} to ${A.long(d.high)}`, `n = ${A.long(d.n)} a seed`]);
      });
      view.addEventListener("mouseout", A.hideTip);
    } });
  }
  function calibrated(place, at) {
    const block = A.family().values[`${state.split}/ece_calibrated`];
    const mean = block && A.at(block.mean, place * A.family().slices.length + at);
    return mean === null || mean === undefined ? "" : ` (a calibrated model of this n: ${A.long(mean)})`;
  }

  function ledger(place) {
    const found = (A.family().ledgers || [])[place];
    const host = A.byId("panel-ledger");
    if (!found) { host.replaceChildren(make("p", { class: "about" }, "No ledger beside these runs.")); return; }
    const unit = found.unit_name && found.unit_name !== found.unit ? `${found.unit} (${found.unit_name})` : found.unit;
    const delta = found.delta === null ? "not stated" : String(found.delta);
    const pairs = found.private ? [
      ["ε", `${found.epsilon} (${(found.certified_by || "?").toUpperCase()}, δ = ${delta}, unit ${unit})`],
      ["other accountants", Object.entries(found.accountants).filter(([name]) => name !== found.certified_by)
        .map(([name, epsilon]) => `${name.toUpperCase()} ${epsilon === null ? "∞" : epsilon}`).join(", ") || "–"],
    ] : [["ε", "∞: not private"]];
    pairs.push(["neighbours by", (found.relation || "").replaceAll("_", " ")],
      ["noise multiplier σ", A.long(found.sigma)], ["steps", String(found.steps ?? "–")],
      ["sampling", `${found.scheme}${found.q === null ? "" : `, q = ${A.long(found.q)}`}`], ["n", A.count(found.records)]);
    const lines = A.family().texts[found.not_covered] || [];
    host.replaceChildren(make("dl", {}, ...pairs.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)])),
      make("details", { open: "" }, make("summary", {}, `Not covered by ε (${lines.length})`), make("ul", {}, ...lines.map((line) => make("li", {}, line)))),
      make("p", { class: "hint" }, `${found.randomness || ""} The first seed’s ledger; whole in ledger.md of the run.`));
  }

  function command(row, place) {
    const words = (A.family().commands || [])[place];
    const shown = A.byId("command");
    A.byId("copied").textContent = "";
    A.byId("copy").hidden = !words;
    shown.textContent = words ? words.join(" ") : "No config.yaml beside these runs.";
    A.byId("command-about").textContent = `Run ${row.runs[0]}, the first of ${row.runs.length}; for the others change seed.`;
  }
  A.byId("copy").addEventListener("click", async () => {
    const shown = A.byId("command");
    const range = document.createRange();
    range.selectNodeContents(shown);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    let done = false;
    // A sandboxed frame may refuse the clipboard: then the selected text is there to be copied.
    try { await navigator.clipboard.writeText(shown.textContent); done = true; } catch { done = false; }
    try { done = done || document.execCommand("copy"); } catch { done = false; }
    A.byId("copied").textContent = done ? "Copied." : "Selected: copy it with Ctrl+C or ⌘C.";
  });
  A.byId("panel-close").addEventListener("click", back);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && state.open) back(); });

  A.openPanel = open;
  A.panel = { draw, close };
})();
