// Start: words at the top and bottom, then the views, then the lab.
(() => {
  "use strict";
  const A = Atlas, make = A.element;
  const FIRST = 5; // findings that stand open

  function lede() {
    const family = A.family();
    const rows = family.conditions.length;
    const several = A.data.families.length > 1 ? ` of ${A.data.cells} in all` : "";
    A.byId("lede").textContent = `${family.data}, ${[family.model, ...family.heading].join(", ")}: ${family.cells} ${family.cells === 1 ? "cell" : "cells"}${several}, ${rows} ${rows === 1 ? "row" : "rows"} of rule, C and guarantee.`;
    const held = [...new Set(family.conditions.filter((row) => row.part === "private").map((row) => row.guarantee))];
    A.byId("guarantees").textContent = held.length ? held.join("; ") : "No row here is private.";
  }
  function findings() {
    const host = A.byId("findings");
    host.hidden = !A.data.findings.length;
    const lines = A.data.findings.map((text) => make("li", {}, text));
    A.byId("findings-list").replaceChildren(...lines.slice(0, FIRST));
    const more = A.byId("findings-more");
    more.hidden = lines.length <= FIRST;
    more.querySelector("summary").textContent = `${lines.length - FIRST} more`;
    more.querySelector("ol").replaceChildren(...lines.slice(FIRST));
  }
  function foot() {
    const left = A.data.left_out;
    const tested = A.family().conditions.some((row) => row.part === "private" && row.tested === "private");
    A.byId("foot").replaceChildren(...[
      "Means over seeds; intervals over seeds are 95 % by the t distribution, for these examples; those over examples are each seed’s own, for its model.",
      tested ? "The test examples are not covered by ε." : "Test and validation examples are declared public; ε covers training records only.",
      "A cell and its baseline, the one of the same seed, share initial weights and test examples; batches and noise are each run’s own.",
      ...A.data.notes,
      left.length ? `Left out: ${left.map(([folder, reason]) => `${folder} (${reason})`).join(", ")}.` : "",
    ].filter(Boolean).map((text) => make("p", {}, text)));
  }
  const draw = () => { A.map.draw(); A.curves.draw(); A.panel.draw(); };

  A.listeners.push((what) => {
    if (what === "family") { A.map.cursor.row = A.map.cursor.column = 0; lede(); foot(); A.lab.build(); A.lab.draw(); }
    draw();
  });
  A.byId("filters").open = window.innerWidth > 760;
  A.controls.reset();
  A.controls.build();
  lede();
  findings();
  foot();
  const ready = Promise.all([A.map.draw(), A.curves.draw()]);
  A.lab.build();
  ready.then(() => { document.body.dataset.ready = "yes"; setTimeout(A.lab.draw, 0); });

  let width = window.innerWidth, timer = 0;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(timer);
    timer = setTimeout(() => { A.map.draw(); A.lab.draw(); }, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    A.controls.build(); draw(); A.lab.draw();
  });
})();
