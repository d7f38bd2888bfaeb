// The lab: sliders, two charts, read-outs. All sums are in lab_math.js.
(() => {
  "use strict";
  const A = Atlas, M = LabMath, make = A.element;
  const table = A.read("lab-epsilon");
  const STOPS = {
    clip_norm: [0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20],
    sigma: table.sigmas, steps: table.steps, batch: table.batches,
    share: [0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3],
    strength: [0.5, 1, 1.5, 2, 3, 4, 6, 8, 10],
  };
  const NAMES = { clip_norm: "Clipping threshold C", sigma: "Noise multiplier σ", steps: "Steps",
                  batch: "Batch (expected)", share: "Share of the rare group", strength: "Strength of the rare group" };
  const RULES = { flat: "flat", automatic: "automatic (AUTO-S, γ = 0.01)", normalise: "normalise (AUTO-V)",
                  psac: "PSAC (r = 0.1)", per_layer: "per layer (each direction one)" };
  const FIRST = { rule: "flat", clip_norm: 1, sigma: 1, steps: 2000, batch: 256, share: 0.05, strength: 4, seed: 1 };
  const setting = { ...FIRST };
  let draws = 0, source = "planted", scaled = true;

  const grouped = (value) => value >= 1e4 ? value.toLocaleString("en-US") : String(value);
  const shown = (key, value) => key === "share" ? `${+(value * 100).toFixed(1)} %` : grouped(value);

  function slider(key) {
    const stops = STOPS[key];
    const output = make("output", { for: `lab-${key}` }, shown(key, setting[key]));
    const input = make("input", { type: "range", id: `lab-${key}`, min: 0, max: stops.length - 1, step: 1,
      value: stops.indexOf(setting[key]), "aria-valuetext": shown(key, setting[key]),
      oninput: () => {
        setting[key] = stops[Number(input.value)];
        output.textContent = shown(key, setting[key]);
        input.setAttribute("aria-valuetext", output.textContent);
        draw();
      } });
    return make("label", {}, make("span", { class: "row" }, NAMES[key], output), input);
  }
  function menu(label, id, options, value, change) {
    const select = make("select", { id, onchange: () => change(select.value) });
    for (const [key, text] of options) select.append(make("option", { value: key, selected: key === value ? "" : null }, text));
    return make("label", {}, label, select);
  }

  function build() {
    const found = A.family().measured || [];
    const form = A.byId("lab-controls");
    source = "planted";
    const sources = [["planted", "planted: two groups"], ...found.map((entry, i) => [String(i), `step ${entry.step}: ${entry.run}`])];
    const check = make("input", { type: "checkbox", id: "lab-scaled", checked: scaled ? "" : null, onchange: () => { scaled = check.checked; draw(); } });
    form.replaceChildren(...[
      found.length ? menu("Gradients", "lab-source", sources, source, (value) => { source = value; settle(); draw(); }) : null,
      menu("Rule", "lab-rule", M.RULES.map((rule) => [rule, RULES[rule]]), setting.rule, (value) => { setting.rule = value; draw(); }),
      ...Object.keys(STOPS).map(slider),
      make("label", { class: "check" }, check, "Arrows as long as the raw mean, as with a learning rate divided by C"),
      make("button", { type: "button", id: "lab-draw", onclick: () => { draws += 1; draw(); } }, "Draw the noise again"),
    ].filter(Boolean));
    form.onsubmit = (event) => event.preventDefault();
  }
  // Measured gradients have their own groups, and a projection that is no layer.
  function settle() {
    const real = source !== "planted";
    for (const key of ["share", "strength"]) A.byId(`lab-${key}`).disabled = real;
    const rule = A.byId("lab-rule");
    [...rule.options].forEach((option) => { option.disabled = real && option.value === "per_layer"; });
    if (real && setting.rule === "per_layer") { setting.rule = "flat"; rule.value = "flat"; }
  }

  function cloud() {
    if (source === "planted") return M.synthetic(setting);
    const found = A.family().measured[Number(source)];
    const size = found.rare.length;
    const points = found.rare.map((_, i) => [A.at(found.x, i), A.at(found.y, i)]);
    const of = (column) => Array.from({ length: size }, (_, i) => A.at(column, i));
    return { points, norms: of(found.norm), rare: found.rare.map(Boolean), weights: of(found.weight) };
  }

  function bound(kind) {
    const c = setting.clip_norm;
    if (kind === "per_layer") {
      const e = c / Math.SQRT2;
      return [[e, e], [-e, e], [-e, -e], [e, -e], [e, e]];
    }
    return Array.from({ length: 73 }, (_, i) => [c * Math.cos(i * Math.PI / 36), c * Math.sin(i * Math.PI / 36)]);
  }

  function draw() {
    const here = cloud();
    const after = M.clipped(here, setting.rule, setting.clip_norm);
    const colour = (i) => here.rare[i] ? A.css("--accent") : A.css("--common");
    const dots = (points) => points.map(([x, y], i) => ({ x, y, colour: colour(i) }));
    const reach = Math.max(...here.norms) * 1.15;
    const edge = bound(setting.rule).map(([x, y], order) => ({ x, y, order, colour: A.css("--ink") }));
    const real = source !== "planted";
    const shown = real || setting.clip_norm > reach ? [] : edge;
    A.draw("cloud", { before: dots(here.points), after: dots(after), bound: shown,
                      corners: corners("cloud", [...here.points, ...shown.map(({ x, y }) => [x, y])]) });
    update(here, after);
    say(M.readouts(setting, here), here);
  }

  function update(here, after) {
    const raw = M.mean(here.points, here.weights), kept = M.mean(after, here.weights);
    const noisy = (i) => M.noisy(setting, kept, i);
    const by = scaled && Math.hypot(...kept) > 0 ? Math.hypot(...raw) / Math.hypot(...kept) : 1;
    const times = ([x, y]) => [x * by, y * by];
    const named = [["raw", raw, A.css("--muted")], ["clipped", times(kept), A.css("--ink")], ["noisy", times(noisy(draws * 80)), A.css("--accent")]];
    const arrows = named.map(([name, [x2, y2], colour]) => ({ name, x: 0, y: 0, x2, y2, colour,
      angle: 90 - Math.atan2(y2, x2) * 180 / Math.PI }));
    const cloud = Array.from({ length: 80 }, (_, i) => times(noisy(draws * 80 + i))).map(([x, y]) => ({ x, y, colour: A.css("--accent") }));
    A.byId("update-about").textContent = "Means over the batch; dots: 80 draws of the noise." + (scaled ? " Clipped and noisy arrows are stretched alike." : "");
    A.byId("update-about").append(make("span", { class: "key" }, ...named.map(([name, , ink]) => {
      const word = make("b", {}, name);
      word.style.color = ink;
      return word;
    })));
    const ends = [[0, 0], ...arrows.map(({ x2, y2 }) => [x2, y2]), ...cloud.map(({ x, y }) => [x, y])];
    A.draw("update", { arrows, draws: cloud, corners: corners("update", ends) });
  }
  // Two corners that give both axes one scale, with all of ``points`` within.
  function corners(name, points) {
    const box = [0, 1].map((axis) => {
      const values = points.map((point) => point[axis]);
      return [Math.min(0, ...values), Math.max(0, ...values)];
    });
    const width = Math.max(150, (A.byId(name).clientWidth || 400) - 58);
    const unit = 1.08 * Math.max((box[0][1] - box[0][0]) / width, (box[1][1] - box[1][0]) / 320) || 1;
    const half = [unit * width / 2, unit * 160];
    const middle = box.map(([low, high]) => (low + high) / 2);
    return [-1, 1].map((side) => ({ x: middle[0] + side * half[0], y: middle[1] + side * half[1] }));
  }

  function certified() {
    const place = ["sigma", "batch", "steps"].map((key) => STOPS[key].indexOf(setting[key]));
    return table.epsilon[place[0]][place[1]][place[2]];
  }
  const percent = (value) => Number.isFinite(value) ? `${(value * 100).toFixed(value < 0.0995 ? 1 : 0)} %` : "–";
  const plain = (value) => Number.isFinite(value) ? A.long(value) : "–";
  // A measured sample holds more of what is rare than the training records do.
  function sampled({ rare, weights }) {
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const part = sum(weights.filter((_, i) => rare[i])) / sum(weights);
    return `${rare.filter(Boolean).length} of the ${rare.length} points are rare; in every mean they count for ${percent(part)}, as in the training records.`;
  }
  function say(found, here) {
    const real = certified();
    const entries = [
      ["kept_rare", "of the rare direction is left in the clipped mean", percent(found.kept_rare), "rare"],
      ["kept_common", "of the common direction is left", percent(found.kept_common)],
      ["bias", `clipping bias: |clipped − raw| over |raw|; cosine ${plain(found.cosine)}`, percent(found.bias)],
      ["noise_norm", "norm of the noise in a 1,000-dimensional slice", plain(found.noise_norm)],
      ["signal_to_noise", "signal to noise there, in one step", plain(found.signal_to_noise)],
      ["rare_after", `signal to noise along the rare direction, summed over ${grouped(setting.steps)} steps`, plain(found.rare_after)],
      ["epsilon", "rough ε (small q, Rényi; δ = 1e-6, unit record): for intuition, no bound", plain(found.epsilon)],
      ["certified", `certified ε (${table.accountant.toUpperCase()}, δ = 1e-6, unit record, add or remove one; N = 50,000)`, real === null ? "> 50" : String(real)],
    ];
    A.byId("readouts").replaceChildren(...entries.map(([key, text, value, kind]) =>
      make("div", { class: kind || "", "data-key": key, "data-value": String(key === "certified" ? real : found[key]) }, make("dt", {}, text), make("dd", {}, value))));
    A.byId("lab-note").textContent = source === "planted"
      ? "Both ε are for Poisson batches of 50,000 records, whatever the cloud. Per-layer clipping takes each direction for a layer of its own, at C/√2."
      : "Measured gradients of a finished run, projected onto the plane of its common and rare mean; clipped by their whole norm. " + sampled(here) + " Diagnostic, not private. Both ε are for 50,000 records, not for this run.";
  }

  const reset = () => { Object.assign(setting, FIRST); draws = 0; };

  A.lab = { build, draw, reset, set: (changes) => { Object.assign(setting, changes); build(); draw(); } };
})();
