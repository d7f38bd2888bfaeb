// Two views of the outcome: against C, and the rare side against the common side.
(() => {
  "use strict";
  const A = Atlas, state = A.state;

  const ofSlice = (key) => /^s\d+$/.test(key);
  function value(key, place) {
    return ofSlice(key) ? A.valueOf(state.outcome, place, Number(key.slice(1))) : A.overallOf(key, place);
  }
  function called(key) {
    if (!ofSlice(key)) return A.data.overall[key];
    const slice = A.family().slices[Number(key.slice(1))];
    return `${A.sliceName(slice)} (n ${A.count(slice.n)})`;
  }
  const oneOf = (key) => ofSlice(key) ? A.metric(state.outcome)
    : { title: A.data.overall[key], split: state.split, change: false, share: true };
  const FEWEST = 3;  // of two seeds an interval by Student's t is 12.7 times as wide as they are apart
  const enough = (found) => found.low !== null && found.seeds >= FEWEST;
  const spanned = (found) => enough(found) ? [found.low, found.high] : [found.mean, found.mean];

  // Where thresholds stand, in decades. Between two that are far apart the axis is cut, or one C
  // of 1e-30 would squeeze all others together.
  const FAR = 3, GAP = 0.7;
  function axis(norms) {
    const at = new Map(), ticks = [], labels = [];
    const tick = (place, label) => { ticks.push(place); labels.push(label); };
    let place = 0;
    norms.forEach((c, i) => {
      const step = i ? Math.log10(c) - Math.log10(norms[i - 1]) : 0;
      const cut = step > FAR && norms.length > 2;
      if (cut) tick(place + GAP / 2, "//");
      place += cut ? GAP : step;
      at.set(c, place);
      tick(place, String(c));
    });
    return { at, ticks, labels };
  }

  function curves() {
    const made = [], level = [];
    let banded = false;
    for (const { row, place } of A.rows()) {
      const found = value(state.focus, place);
      if (!found) continue;
      const look = A.look(row);
      if (row.part === "baseline") {
        if (!oneOf(state.focus).change) level.push({ value: found.mean, colour: look.colour });
        continue;
      }
      if (row.c === null) continue;
      const [low, high] = spanned(found);
      banded = banded || enough(found);
      made.push({ row: place, c: row.c, value: found.mean, low, high, ...look,
                  line: [row.rule, row.guarantee, ...row.settings.filter((w) => !w.startsWith("clip.norm"))].join("|") });
    }
    const one = oneOf(state.focus);
    const subject = ofSlice(state.focus) ? `${one.title} of ${called(state.focus)}` : capital(called(state.focus));
    A.byId("curves-title").textContent = `${subject} against C`;
    const scaled = [...new Set(A.rows().filter(({ row }) => row.part !== "baseline").map(({ row }) => row.lr_scale).filter(Boolean))];
    const base = level.length ? ` Dotted: the baseline, ${A.long(level[0].value)}.` : "";
    A.byId("curves-about").textContent = made.length
      ? `${banded ? "Mean and 95 % band over seeds" : `Mean over seeds, fewer than ${FEWEST}: no band`}, ${state.split} split.${base} ${rates(scaled)}`
      : "No rule with a C among what is chosen.";
    const norms = [...new Set(made.map((entry) => entry.c))].sort((a, b) => a - b);
    const { at, ticks, labels } = axis(norms.filter((c) => c > 0));
    return A.draw("curves", { curves: made.map((entry) => ({ ...entry, at: at.get(entry.c) })), level },
      { signals: { ticks, labels }, listen: (view) => listen(view, "curves") });
  }
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const rates = (found) => found.map((word) => ({
    by_norm: "Learning rate divided by C.", fixed: "Learning rate the same for every C, so that C also scales the step." }[word] || `lr_scale=${word}.`)).join(" ");

  function scatter() {
    const made = [];
    let barred = false;
    for (const { row, place } of A.rows()) {
      const x = value(state.head, place), y = value(state.focus, place);
      if (!x || !y) continue;
      const look = A.look(row);
      const [xlow, xhigh] = spanned(x), [ylow, yhigh] = spanned(y);
      barred = barred || enough(x) || enough(y);
      made.push({ row: place, x: x.mean, y: y.mean, xlow, xhigh, ylow, yhigh, ...look,
                  fill: row.part === "private" ? look.colour : A.css("--card") });
    }
    A.byId("scatter-title").textContent = "The rare side against the common side";
    A.byId("scatter-about").textContent =
      `Upwards ${told(state.focus)}; across ${told(state.head)}. ${barred ? "Bars: 95 % over seeds." : "Means over seeds."}${made.some((d) => d.fill !== d.colour) ? " Hollow: not private." : ""}`;
    return A.draw("scatter", { scatter: made }, { listen: (view) => listen(view, "scatter") });
  }
  const told = (key) => ofSlice(key) ? `${oneOf(key).title.toLowerCase().replace("ece", "ECE")}, ${called(key)}` : called(key);

  function listen(view, name) {
    view.addEventListener("mousemove", (event, item) => {
      const datum = item && item.datum && item.datum.row !== undefined ? item.datum : null;
      if (!datum || (item.mark.marktype !== "symbol")) { A.hideTip(); A.hover(-1); return; }
      const row = A.family().conditions[datum.row];
      const lines = A.tell(value(state.focus, datum.row), oneOf(state.focus), row);
      const head = name === "scatter" ? [called(state.focus), ...lines, called(state.head), ...A.tell(value(state.head, datum.row), oneOf(state.head), row)] : lines;
      A.hover(datum.row);
      A.showTip(event, A.rowName(row), [...head, row.settings.join(", "), row.guarantee]);
    });
    view.addEventListener("mouseout", () => { A.hideTip(); A.hover(-1); });
    view.addEventListener("click", (_, item) => {
      if (item && item.datum && item.datum.row !== undefined && ofSlice(state.focus)) {
        A.openPanel(item.datum.row, Number(state.focus.slice(1)), false);
      }
    });
  }

  // One row lights up in every view.
  let lit = -1;
  A.hover = (place) => {
    if (place === lit) return;
    lit = place;
    A.signal("map", "row", place);
    A.signal("scatter", "row", place);
    const row = place < 0 ? null : A.family().conditions[place];
    A.signal("curves", "line", row && row.c !== null
      ? [row.rule, row.guarantee, ...row.settings.filter((w) => !w.startsWith("clip.norm"))].join("|") : "");
  };

  A.curves = { draw: () => Promise.all([curves(), scatter()]) };
})();
