// The data, what is chosen of them, numbers in words, colours, and one way to draw a chart.
const Atlas = (() => {
  "use strict";
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = read("data");
  const specs = read("charts");
  const state = { family: 0, split: "test", map: null, outcome: null, focus: null, head: null,
                  rules: new Set(), norms: new Set(), guarantees: new Set(), slices: new Set(),
                  open: null };
  const listeners = [];
  const views = {};
  const byId = (id) => document.getElementById(id);

  const family = () => data.families[state.family];
  const metric = (key) => data.metrics[state.split].find((one) => one.key === key);
  const at = (column, place) => (Array.isArray(column) ? column[place] : column);

  function numbers(block, place) {
    if (!block) return null;
    const found = {};
    for (const name of Object.keys(block)) found[name] = at(block[name], place);
    return found.mean === null || found.mean === undefined ? null : found;
  }
  const valueOf = (key, row, slice) =>
    numbers(family().values[metric(key).block], row * family().slices.length + slice);
  const overallOf = (name, row) => numbers(family().overall[state.split][name], row);

  function short(value, signed) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    const text = size >= 100 ? size.toFixed(0) : size >= 10 ? size.toFixed(1)
      : size.toFixed(2).replace(/^0\./, ".");
    const zero = Number(text) === 0;
    return (value < 0 && !zero ? "−" : signed && !zero ? "+" : "") + (zero ? "0" : text);
  }
  function long(value, signed) {
    if (value === null || value === undefined) return "–";
    const text = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
      ? Math.abs(value).toExponential(2) : String(Number(Math.abs(value).toPrecision(3)));
    return (value < 0 ? "−" : signed && value > 0 ? "+" : "") + text;
  }
  const count = (n) => (n === null || n === undefined ? "?" : n >= 1e4
    ? `${Math.round(n / 100) / 10}k`.replace(".0k", "k") : String(Math.round(n)));

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  function shade(scale, part) {
    const stops = data.colours[scale];
    const place = Math.min(1, Math.max(0, part)) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    const one = channels(stops[low]), two = channels(stops[low + 1]);
    return "#" + one.map((c, i) => Math.round(c + (two[i] - c) * (place - low))
      .toString(16).padStart(2, "0")).join("");
  }
  function inkOn(hex) {
    const [r, g, b] = channels(hex).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    return (light + 0.05) / 0.0636 > 1.05 / (light + 0.05) ? "#1f1f1f" : "#ffffff";
  }

  // A shape and a colour for each rule, the same in every chart and in the menu.
  const SHAPES = [
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z", "M-.88,-.88H.88V.88H-.88Z", "M0,-1.1L1.1,.85H-1.1Z",
    "M0,-1.25L1.25,0L0,1.25L-1.25,0Z", "M0,1.1L1.1,-.85H-1.1Z",
    "M-1.1,-.4H-.4V-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1Z",
    "M1.1,0L-.85,1.1V-1.1Z", "M-1.1,0L.85,1.1V-1.1Z",
  ];
  const rulesOf = (one) => [...new Set(one.conditions.filter((c) => c.part !== "baseline")
    .map((c) => c.rule))];
  function look(row) {
    if (row.part === "baseline") return { colour: css("--ink"), shape: SHAPES[5], dash: "dotted" };
    const place = Math.max(0, rulesOf(family()).indexOf(row.rule));
    const dash = { clip_only: "dashed", noise_only: "dotted" }[row.mechanism] || "solid";
    return { colour: css(`--r${place % 8}`),
             shape: SHAPES[(place + Math.floor(place / 8)) % SHAPES.length], dash };
  }

  const rowName = (row) => row.part === "baseline" ? "baseline"
    : row.rule + (row.c === null ? "" : `, C = ${row.c}`);
  const sliceName = (slice) => slice.kind === "all" ? "all"
    : `${slice.heading || slice.kind} ${slice.short === "" ? "(empty)" : slice.short}`;

  function chosen(row) {
    if (!state.guarantees.has(row.guarantee)) return false;
    if (row.part === "baseline") return true;
    return state.rules.has(row.rule) && (row.c === null || state.norms.has(row.c));
  }
  const rows = () => family().conditions.map((row, place) => ({ row, place }))
    .filter((entry) => chosen(entry.row));
  const slices = () => family().slices.map((slice, place) => ({ slice, place }))
    .filter((entry) => state.slices.has(entry.place));

  // The settings that all of some rows share, by part.
  function alike(entries) {
    const found = { baseline: [], private: [], diagnostic: [] };
    for (const part of Object.keys(found)) {
      const own = entries.filter(({ row }) => row.part === part).map(({ row }) => row.settings);
      if (own.length) found[part] = own[0].filter((word) => own.every((words) => words.includes(word)));
    }
    return found;
  }

  // Elements are only ever filled as text: names come from the data.
  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  function config() {
    const ink = css("--ink"), muted = css("--muted"), line = css("--line");
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null, font, view: { stroke: null },
      axis: { labelColor: muted, titleColor: muted, gridColor: line, domainColor: line,
              tickColor: line, labelFontSize: 11.5, titleFontSize: 12, titleFontWeight: "normal",
              labelFont: font, titleFont: font, titlePadding: 8, domain: false, ticks: false,
              labelPadding: 6 },
      axisX: { domain: true }, text: { font, color: ink },
    };
  }

  // Draw a chart once, and later only give it new data: that keeps every control quick.
  function draw(name, datasets, options = {}) {
    const last = (views[name] && views[name].ready) || Promise.resolve();
    const entry = views[name] || (views[name] = { theme: null });
    entry.ready = last.then(async () => {
      const theme = css("--page") + (options.renderer || "svg");
      if (entry.theme !== theme) {
        if (entry.result) entry.result.finalize();
        const given = {};
        for (const key of Object.keys(datasets)) given[key] = datasets[key];
        const spec = { ...specs[name], datasets: given, config: config() };
        if (options.size) Object.assign(spec, options.size);
        if (options.signals) spec.params = spec.params.map((one) => one.name in options.signals
          ? { ...one, value: options.signals[one.name] } : one);
        entry.result = await vegaEmbed(byId(name), spec, {
          actions: false, renderer: options.renderer || "svg", tooltip: false, mode: "vega-lite",
          logLevel: 1,  // errors only: an empty choice is no cause for a warning
        });
        entry.view = entry.result.view;
        entry.theme = theme;
        if (options.listen) options.listen(entry.view);
        return entry.view;
      }
      for (const key of Object.keys(datasets)) entry.view.data(key, datasets[key]);
      for (const key of Object.keys(options.signals || {})) entry.view.signal(key, options.signals[key]);
      if (options.size) entry.view.width(options.size.width).height(options.size.height);
      await entry.view.runAsync();
      return entry.view;
    }).catch((error) => { console.error(error); });
    return entry.ready;
  }
  function signal(name, key, value) {
    const entry = views[name];
    if (entry && entry.view) entry.view.signal(key, value).runAsync();
  }

  const tip = byId("tip");
  function showTip(event, title, lines) {
    tip.replaceChildren(element("b", {}, title), lines.filter(Boolean).join("\n"));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const below = event.clientY + 16 + box.height < window.innerHeight;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${below ? event.clientY + 16 : Math.max(8, event.clientY - box.height - 12)}px`;
  }
  const hideTip = () => { tip.hidden = true; };

  // What hovering, the live region and the panel say of one number.
  function tell(found, one, row) {
    if (!found) return ["no value, or too few examples for one"];
    const lines = [`${one.title} ${long(found.mean, one.change && row.part !== "baseline")}`];
    if (found.low !== null) lines.push(`95 % over ${found.seeds} seeds: ${long(found.low)} to ${long(found.high)}`);
    if (found.from !== null) {
      const by = row.release === "accounted" && one.split === "train" ? "under its noise" : "over examples";
      lines.push(`95 % ${by}, each seed: ${long(found.from)} to ${long(found.to)}`);
    }
    if (found.low === null && found.from === null) lines.push(`${found.seeds === 1 ? "one seed" : `${found.seeds} seeds`}, no interval`);
    lines.push(`n = ${count(found.n)}${{ train: " draws", audit: " records with a coin" }[one.split] || ""}`);
    if (one.split === "audit") lines.push("diagnostic, not private");
    if (one.split === "train" && row.part !== "baseline") lines.push({
      private: "diagnostic, not private", accounted: "noised, and inside ε",
      public: "of public records" }[row.release]);
    return lines;
  }

  return { data, state, listeners, views, byId, family, metric, valueOf, overallOf, short, long,
           count, css, shade, inkOn, look, rulesOf, rowName, sliceName, rows, slices, alike, element, draw,
           signal, showTip, hideTip, tell, SHAPES, at, read,
           changed: (what) => listeners.forEach((listener) => listener(what)) };
})();
