// The map: conditions by slices, laid out in pixels for the width at hand.
(() => {
  "use strict";
  const A = Atlas, state = A.state;
  const KIND = 12, GROUP = 9, MANY = 3000, LOWEST = 24, HIGHEST = 44, FILLED = 600;
  const NOT_PRIVATE = "not private";
  const called = (row) => (row.part === "baseline" ? "baseline" : row.rule);
  const host = A.byId("map");
  let shape = null;  // what is laid out: rows, columns and the edges of tiles
  const cursor = { row: 0, column: 0, shown: false };

  const ruler = document.createElement("canvas").getContext("2d");
  function wide(text, size) {
    ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    return ruler.measureText(text).width;
  }

  function limits(one, rows, columns) {
    let reach = 0.1;
    for (const { row, place } of rows) {
      if (row.part === "baseline") continue;
      for (const column of columns) {
        const found = A.valueOf(one.key, place, column.place);
        if (found) reach = Math.max(reach, Math.abs(found.mean));
      }
    }
    if (one.key === "clip_fraction") return [0, 1];
    reach = Math.ceil(reach * 10 - 1e-9) / 10;
    if (one.share) reach = Math.min(1, reach);  // kept can be above: then the rest would be one colour
    return one.change ? [-Math.max(0.2, reach), Math.max(0.2, reach)] : [0, reach];
  }

  function layout(rows, columns) {
    const room = Math.max(280, A.byId("map-scroll").clientWidth);
    const narrow = room < 520;
    const alike = A.alike(rows);
    const details = rows.map(({ row }) => row.settings.filter((word) => !alike[row.part].includes(word)).join(", "));
    const norms = rows.map(({ row }) => row.part === "baseline" ? (narrow ? "" : NOT_PRIVATE)
      : row.c === null ? "" : narrow ? String(row.c) : `C = ${row.c}`);
    const labels = {
      group: Math.min(narrow ? 76 : 130, 10 + Math.max(60, ...rows.map(({ row }) => Math.max(wide(called(row), 12.5), narrow ? 0 : wide(row.short, 11))))),
      norm: Math.min(90, Math.max(narrow ? 34 : 56, ...norms.map((text) => wide(text, 12) + 12))),
      detail: narrow || !details.some(Boolean) ? 0
        : Math.min(220, 8 + Math.max(...details.map((text) => wide(text, 10.5)))),
    };
    const left = labels.group + labels.norm + labels.detail;
    const kinds = columns.map(({ slice }) => `${slice.kind}/${slice.heading}`);
    const gaps = kinds.filter((kind, i) => i && kind !== kinds[i - 1]).length * KIND;
    const tile = Math.max(13, Math.min(66, (room - left - gaps - 6) / Math.max(1, columns.length)));
    const names = columns.map(({ slice }) => slice.short === "" ? "(empty)" : slice.short.replace(/\s+/g, " "));
    const slanted = names.some((name) => wide(name, 12) > tile - 3);
    const rise = slanted ? Math.min(92, 14 + Math.max(...names.map((name) => Math.min(120, wide(name, 12)) * 0.68))) : 18;
    const overhang = slanted ? Math.min(92, Math.min(120, wide(names[names.length - 1] || "", 12)) * 0.75) : 4;
    const x = [];
    let edge = left;
    kinds.forEach((kind, i) => { if (i && kind !== kinds[i - 1]) edge += KIND; x.push(edge); edge += tile; });
    const top = 18 + rise + 18;
    const high = Math.max(LOWEST, Math.min(HIGHEST, Math.floor((narrow ? 0 : FILLED - top) / Math.max(1, rows.length))));
    const y = [];
    let down = top;
    const groups = rows.map(({ row }) => [row.part, row.rule, row.short].join("/"));
    groups.forEach((group, i) => { if (i && group !== groups[i - 1]) down += GROUP; y.push(down); down += high; });
    return { rows, columns, x, y, tile, high, left, top, rise, slanted, names, kinds, groups, labels, details, norms,
             narrow, width: Math.ceil(edge + overhang + 4), height: Math.ceil(down + 4) };
  }

  function tiles(at, one, [low, high]) {
    const made = [];
    const plain = A.css("--plain"), muted = A.css("--muted");
    at.rows.forEach(({ row, place }, i) => at.columns.forEach((column, j) => {
      const found = A.valueOf(one.key, place, column.place);
      const bare = row.part === "baseline" || !found;
      const fill = bare ? plain : A.shade(one.scale, (found.mean - low) / (high - low));
      const text = A.short(found && found.mean, one.change && row.part !== "baseline");
      made.push({ row: place, slice: column.place, i, j, fill,
        above: !bare && found.mean > high, ink: bare ? muted : A.inkOn(fill), text: at.tile >= 27 && wide(text, 11) < at.tile - 2 ? text : "",
        x: at.x[j] + 0.75, x2: at.x[j] + at.tile - 0.75, xm: at.x[j] + at.tile / 2,
        y: at.y[i] + 0.75, y2: at.y[i] + at.high - 0.75, ym: at.y[i] + at.high / 2 });
    }));
    return made;
  }

  function rowLabels(at) {
    const left = [], right = [];
    const ink = A.css("--ink"), muted = A.css("--muted");
    at.rows.forEach(({ row }, i) => {
      const y = at.y[i] + at.high / 2;
      const first = i === 0 || at.groups[i] !== at.groups[i - 1];
      const second = i > 0 && !first && (i === 1 || at.groups[i - 1] !== at.groups[i - 2]);
      const note = row.part === "private" ? "" : NOT_PRIVATE;
      // A group of one row has both lines on it, or nothing would say who is protected.
      const alone = first && row.part !== "baseline" && at.groups[i + 1] !== at.groups[i];
      if (first) left.push({ x: 0, y: alone ? y - 6 : y, text: called(row), size: 12.5, ink, limit: at.labels.group - 6 });
      if (second || alone) left.push({ x: 0, y: alone ? y + 7 : y, text: row.short, size: 11, ink: muted, limit: at.labels.group - 6 });
      if (!second && !first && note && at.groups[i - 2] !== at.groups[i]) left.push({ x: 0, y, text: note, size: 11, ink: muted, limit: at.labels.group - 6 });
      const bare = row.part === "baseline";
      if (at.norms[i]) right.push({ x: at.labels.group + at.labels.norm - 8, y, text: at.norms[i], size: bare ? 11 : 12, ink: bare ? muted : ink, limit: at.labels.norm - 8 });
      if (at.labels.detail && at.details[i]) left.push({ x: at.labels.group + at.labels.norm, y, text: at.details[i], size: 10.5, ink: muted, limit: at.labels.detail - 6 });
    });
    return { left, right };
  }

  function columnLabels(at, one) {
    const middle = [], slanted = [], left = [];
    const ink = A.css("--ink"), muted = A.css("--muted"), accent = A.css("--accent");
    at.columns.forEach(({ slice, place }, j) => {
      const x = at.x[j] + at.tile / 2, colour = slice.tail ? accent : ink;
      const y = at.top - 18 - 9;
      if (at.slanted) slanted.push({ x: x - 2, y: y + 4, text: at.names[j], size: 12, ink: colour, limit: 120 });
      else middle.push({ x, y, text: at.names[j], size: 12.5, ink: colour, limit: at.tile });
      const found = at.rows.map((entry) => A.valueOf(one.key, entry.place, place)).find(Boolean);
      const n = found ? A.count(found.n) : A.count(slice.n);
      if (wide(n, 10) < at.tile) middle.push({ x, y: at.top - 9, text: n, size: 10, ink: muted, limit: at.tile });
      if (j === 0 || at.kinds[j] !== at.kinds[j - 1]) {
        const end = at.kinds.lastIndexOf(at.kinds[j]);
        left.push({ x: at.x[j], y: 8, text: slice.heading, size: 11, ink: muted, limit: Math.max(30, at.x[end] + at.tile - at.x[j]) });
      }
    });
    left.push({ x: 0, y: at.top - 9, text: one.split === "train" ? "n drawn" : `n ${one.split}`, size: 10, ink: muted, limit: at.left - 4 });
    return { middle, slanted, left };
  }

  function frames(at) {
    const stroke = A.css("--accent");
    const last = at.y.length - 1;
    return last < 0 ? [] : at.columns.flatMap(({ slice }, j) => slice.tail
      ? [{ x: at.x[j] - 0.5, x2: at.x[j] + at.tile + 0.5, y: at.top - 1, y2: at.y[last] + at.high + 1, stroke }] : []);
  }

  function marker() {
    if (!cursor.shown || !shape || !shape.rows.length || !shape.columns.length) return [];
    const i = cursor.row, j = cursor.column;
    return [{ x: shape.x[j] - 1, x2: shape.x[j] + shape.tile + 1, y: shape.y[i] - 1,
              y2: shape.y[i] + shape.high + 1, stroke: A.css("--focus") }];
  }

  function legend(one, [low, high], above) {
    const stops = A.data.colours[one.scale];
    const bar = A.element("i");
    bar.style.background = `linear-gradient(90deg, ${stops.join(",")})`;
    A.byId("map-scale").replaceChildren(A.short(low, one.change), bar, A.short(high, one.change),
      A.element("span", {}, above ? `${one.dark}; ▲ above ${A.short(high)}` : one.dark));
  }
  const corners = (made) => made.filter((tile) => tile.above)
    .map((tile) => ({ x: tile.x2 - 5, y: tile.y + 5, text: "▲", size: 7, ink: tile.ink, limit: 9 }));

  function words(one) {
    A.byId("map-title").textContent = `${one.title} by rule and slice`;
    const raw = one.split === "audit" || one.split === "train" && shape.rows.some(({ row }) => row.part !== "baseline" && row.release === "private");
    A.byId("map-about").replaceChildren(
      `${one.about[0].toUpperCase()}${one.about.slice(1)}${one.split === "train" ? "" : one.split === "audit" ? "; of audited runs" : `; ${one.split} split`}. Mean over seeds. Framed: the tail. ${settings()}`,
      raw ? A.element("span", { class: "tag" }, "diagnostic, not private") : "");
    host.setAttribute("aria-label", `${one.title}: ${shape.rows.length} rows by ${shape.columns.length} slices`);
  }

  // What all rows of a kind have in common is said once, not beside every row.
  const KINDS = { baseline: "Baseline", private: "Every private row", diagnostic: "Every diagnostic" };
  function settings() {
    const told = Object.entries(A.alike(shape.rows)).filter(([, words]) => words.length);
    return told.map(([part, words]) => `${KINDS[part]}: ${words.join(", ")}. `).join("");
  }

  function draw() {
    const one = A.metric(state.map);
    const rows = A.rows(), columns = A.slices();
    shape = layout(rows, columns);
    cursor.row = Math.min(cursor.row, Math.max(0, rows.length - 1));
    cursor.column = Math.min(cursor.column, Math.max(0, columns.length - 1));
    const range = limits(one, rows, columns);
    const across = rowLabels(shape), along = columnLabels(shape, one);
    words(one);
    const made = tiles(shape, one, range), above = corners(made);
    legend(one, range, above.length > 0);
    table(one);
    return A.draw("map", {
      tiles: made, frames: frames(shape), cursor: marker(),
      left: [...across.left, ...along.left], right: across.right, middle: [...along.middle, ...above], slanted: along.slanted,
    }, { size: { width: shape.width, height: shape.height },
         renderer: rows.length * columns.length > MANY ? "canvas" : "svg", listen });
  }

  function listen(view) {
    const of = (item) => (item && item.datum && item.datum.slice !== undefined ? item.datum : null);
    view.addEventListener("mousemove", (event, item) => {
      const datum = of(item);
      if (!datum) { A.hideTip(); A.hover(-1); return; }
      A.hover(datum.row);
      A.showTip(event, title(datum.row, datum.slice), lines(datum.row, datum.slice));
    });
    view.addEventListener("mouseout", () => { A.hideTip(); A.hover(-1); });
    view.addEventListener("click", (_, item) => {
      const datum = of(item);
      if (datum) { cursor.row = datum.i; cursor.column = datum.j; A.openPanel(datum.row, datum.slice, false); }
    });
  }
  const title = (row, slice) => `${A.rowName(A.family().conditions[row])} · ${A.sliceName(A.family().slices[slice])}`;
  function lines(row, slice) {
    const of = A.family().conditions[row];
    return [...A.tell(A.valueOf(state.map, row, slice), A.metric(state.map), of), of.settings.join(", "), of.guarantee];
  }

  function move() {
    const entry = shape.rows[cursor.row], column = shape.columns[cursor.column];
    A.views.map.view.data("cursor", marker()).runAsync();
    if (!entry || !column) return;
    A.byId("map-live").textContent = cursor.shown
      ? [title(entry.place, column.place), ...lines(entry.place, column.place).filter(Boolean)].join("; ") : "";
    A.hover(cursor.shown ? entry.place : -1);
    const scroll = A.byId("map-scroll");
    const x = shape.x[cursor.column];
    if (x + shape.tile > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = x + shape.tile - scroll.clientWidth + 8;
    if (x < scroll.scrollLeft + 4) scroll.scrollLeft = Math.max(0, x - shape.left - 8);
  }
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  host.addEventListener("keydown", (event) => {
    if (!shape || !shape.rows.length || !shape.columns.length) return;
    const step = STEPS[event.key];
    if (step) {
      cursor.row = Math.min(shape.rows.length - 1, Math.max(0, cursor.row + step[0]));
      cursor.column = Math.min(shape.columns.length - 1, Math.max(0, cursor.column + step[1]));
    } else if (event.key === "Home") cursor.column = 0;
    else if (event.key === "End") cursor.column = shape.columns.length - 1;
    else if (event.key === "Enter" || event.key === " ") {
      A.openPanel(shape.rows[cursor.row].place, shape.columns[cursor.column].place, true);
    } else return;
    event.preventDefault();
    cursor.shown = true;
    move();
  });
  host.addEventListener("focus", () => { if (host.matches(":focus-visible") && shape) { cursor.shown = true; move(); } });
  host.addEventListener("blur", () => { if (shape) { cursor.shown = false; move(); } });

  function table(one) {
    const details = A.byId("map-table");
    const fill = () => {
      const make = A.element;
      const head = make("tr", {}, make("th", { scope: "col" }, "rule"), make("th", { scope: "col" }, "guarantee"),
        ...shape.columns.map(({ slice }) => make("th", { scope: "col" }, `${A.sliceName(slice)}`)));
      const body = shape.rows.map(({ row, place }) => make("tr", {}, make("th", { scope: "row" }, A.rowName(row)), make("td", { class: "words" }, row.short),
        ...shape.columns.map((column) => {
          const found = A.valueOf(one.key, place, column.place);
          return make("td", {}, found ? `${A.long(found.mean)}${found.low === null ? "" : ` [${A.long(found.low)}, ${A.long(found.high)}]`} n ${A.count(found.n)}` : "–");
        })));
      details.querySelector("div").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
    };
    details.ontoggle = () => { if (details.open) fill(); };
    if (details.open) fill();
  }

  A.map = { draw, cursor };
})();
