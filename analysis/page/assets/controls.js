// The menus and chips: what is chosen of the family at hand.
(() => {
  "use strict";
  const A = Atlas, state = A.state, make = A.element;
  const WANTED = { rarity: 0, label: 1 };

  function firstTail(slices) {
    const tails = slices.map((slice, place) => ({ slice, place })).filter((e) => e.slice.tail);
    tails.sort((a, b) => (WANTED[b.slice.kind] ?? 0) - (WANTED[a.slice.kind] ?? 0));
    return tails.length ? `s${tails[0].place}` : `s${Math.max(0, slices.length - 1)}`;
  }
  function firstHead(slices) {
    const head = slices.findIndex((s) => s.kind === "rarity" && s.name.toLowerCase() === "head");
    return `s${Math.max(0, head)}`;
  }
  const has = (key) => Boolean(A.family().values[A.metric(key).block]);
  const metrics = (keep) => A.data.metrics[state.split].filter((one) => keep(one) && has(one.key));

  function reset() {
    const family = A.family();
    state.split = Object.keys(A.data.metrics).find((split) =>
      A.data.metrics[split].some((one) => one.split === split && family.values[one.block]))
      || "test";
    state.rules = new Set(A.rulesOf(family));
    state.norms = new Set(family.conditions.map((row) => row.c).filter((c) => c !== null));
    state.slices = new Set(family.slices.keys());
    const held = new Map();
    for (const row of family.conditions) {
      if (row.part === "private") held.set(row.guarantee, (held.get(row.guarantee) || 0) + 1);
    }
    const most = [...held].sort((a, b) => b[1] - a[1]).slice(0, 1).map(([name]) => name);
    const rest = family.conditions.filter((row) => row.part === "baseline" || !most.length);
    state.guarantees = new Set([...most, ...rest.map((row) => row.guarantee)]);
    state.focus = firstTail(family.slices);
    state.head = firstHead(family.slices);
    const first = (keys, keep) => keys.find((key) => A.metric(key) && has(key))
      || (metrics(keep)[0] || A.data.metrics[state.split][0]).key;
    state.map = first(["kept", "clip_fraction", "recall_change", "recall"], () => true);
    state.outcome = first(["recall", "accuracy"], () => true);
    state.open = null;
  }

  function select(label, id, options, value, change) {
    const menu = make("select", { id, onchange: () => change(menu.value) });
    for (const [key, text] of options) {
      menu.append(make("option", { value: key, selected: key === value ? "" : null }, text));
    }
    return make("label", {}, label, menu);
  }

  function selects() {
    const family = A.family();
    const places = family.slices.map((slice, place) =>
      [`s${place}`, `${A.sliceName(slice)} (n ${A.count(slice.n)})`]);
    const wholes = Object.keys(family.overall[state.split]).map((key) => [key, A.data.overall[key]]);
    const pick = (key) => (value) => { state[key] = value; A.changed("data"); };
    const titles = metrics(() => true).map((one) => [one.key, one.title]);
    const made = [];
    if (A.data.families.length > 1) {
      const names = A.data.families.map((one, place) => [String(place),
        [one.data, one.model, ...one.heading].join(", ")]);
      made.push(select("Data and model", "pick-family", names, String(state.family), (value) => {
        state.family = Number(value); reset(); build(); A.changed("family");
      }));
    }
    made.push(select("Map shows", "pick-map", titles, state.map, pick("map")));
    made.push(select("Curves show", "pick-outcome", titles, state.outcome, pick("outcome")));
    made.push(select("of the rare side", "pick-focus", [...places, ...wholes], state.focus, pick("focus")));
    made.push(select("against the common side", "pick-head", [...places, ...wholes], state.head, pick("head")));
    const splits = Object.keys(A.data.metrics).filter((split) =>
      A.data.metrics[split].some((one) => one.split === split && family.values[one.block]));
    if (splits.length > 1) {
      made.push(select("Evaluated on", "pick-split", splits.map((s) => [s, `${s} split`]), state.split,
        (value) => { state.split = value; build(); A.changed("data"); }));
    }
    A.byId("selects").replaceChildren(...made);
  }

  function glyph(row) {
    const look = A.look(row);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [k, v] of Object.entries({ viewBox: "-1.4 -1.4 2.8 2.8", width: 12, height: 12, "aria-hidden": "true" })) svg.setAttribute(k, v);
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", look.shape);
    path.setAttribute("fill", look.colour);
    svg.append(path);
    return svg;
  }

  function chips(label, held, entries) {
    const set = make("fieldset", {}, make("legend", {}, label));
    for (const { key, content, kind } of entries) {
      const button = make("button", { type: "button", class: `chip ${kind || ""}`,
        "aria-pressed": String(held.has(key)),
        onclick: () => {
          if (held.has(key)) held.delete(key); else held.add(key);
          button.setAttribute("aria-pressed", String(held.has(key)));
          A.changed("data");
        } }, ...content);
      set.append(button);
    }
    return set;
  }

  function build() {
    const family = A.family();
    if (!metrics(() => true).some((one) => one.key === state.map)) state.map = "recall";
    selects();
    const rules = A.rulesOf(family).map((rule) => ({ key: rule,
      content: [glyph(family.conditions.find((row) => row.rule === rule)), rule] }));
    const norms = [...new Set(family.conditions.map((row) => row.c).filter((c) => c !== null))]
      .sort((a, b) => a - b).map((c) => ({ key: c, content: [String(c)] }));
    const guarantees = [...new Set(family.conditions.map((row) => row.guarantee))]
      .map((text) => ({ key: text, content: [text] }));
    const places = family.slices.map((slice, place) => ({ key: place, kind: slice.tail ? "tail" : "",
      content: [A.sliceName(slice), make("small", {}, `n ${A.count(slice.n)}`)] }));
    A.byId("chips").replaceChildren(chips("Rule", state.rules, rules), chips("C", state.norms, norms),
      chips("Guarantee", state.guarantees, guarantees), chips("Slices", state.slices, places));
  }

  A.controls = { reset, build };
})();
