// The lab's formulas, those of analysis/page/lab.py: a browser test compares every read-out.
const LabMath = (() => {
  "use strict";
  const RECORDS = 50000, DELTA = 1e-6, DIMENSIONS = 1000, POINTS = 400;
  const SPREAD_COMMON = 0.35, SPREAD_RARE = 0.3, STABILITY = 0.01, PSAC = 0.1;

  function* uniforms(seed) {
    let state = seed >>> 0;
    for (;;) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      let mixed = (state ^ (state >>> 15)) >>> 0;
      mixed = Math.imul(mixed, 0x2c1b3c6d) >>> 0;
      mixed = (mixed ^ (mixed >>> 12)) >>> 0;
      yield (mixed + 0.5) / 4294967296;
    }
  }
  function* normals(seed) {
    const stream = uniforms(seed);
    for (;;) {
      const length = Math.sqrt(-2 * Math.log(stream.next().value));
      const angle = 2 * Math.PI * stream.next().value;
      yield length * Math.cos(angle);
      yield length * Math.sin(angle);
    }
  }

  function synthetic(setting) {
    const stream = normals(setting.seed);
    const rare = Math.max(1, Math.floor(setting.share * POINTS + 0.5));
    const points = [];
    for (let place = 0; place < POINTS; place += 1) {
      const one = stream.next().value, two = stream.next().value;
      if (place < rare) {
        const wide = SPREAD_RARE * Math.sqrt(setting.strength);
        points.push([wide * one, setting.strength + wide * two]);
      } else points.push([1 + SPREAD_COMMON * one, SPREAD_COMMON * two]);
    }
    return { points, norms: points.map((p) => Math.hypot(...p)), rare: points.map((_, i) => i < rare) };
  }

  const shrink = (norm, bound) => (norm > 0 ? Math.min(1, bound / norm) : 1);
  const WEIGHTS = {
    flat: shrink,
    automatic: (norm, bound) => bound / (norm + STABILITY),
    normalise: (norm, bound) => (norm > 0 ? bound / norm : 0),
    psac: (norm, bound) => bound / (norm + PSAC / (norm + PSAC)),
  };
  function clipped(cloud, rule, bound) {
    if (rule === "per_layer") {
      const each = bound / Math.SQRT2;
      return cloud.points.map(([x, y]) => [x * shrink(Math.abs(x), each), y * shrink(Math.abs(y), each)]);
    }
    return cloud.points.map(([x, y], i) => {
      const weight = WEIGHTS[rule](cloud.norms[i], bound);
      return [x * weight, y * weight];
    });
  }

  function mean(points, weights) {
    const by = weights || points.map(() => 1);
    const count = by.reduce((sum, weight) => sum + weight, 0) || 1;
    return [0, 1].map((axis) => points.reduce((sum, point, i) => sum + point[axis] * by[i], 0) / count);
  }
  function direction(cloud, ofRare) {
    const centre = mean(cloud.points.filter((_, i) => cloud.rare[i] === ofRare));
    const length = Math.hypot(...centre);
    return length > 0 ? centre.map((c) => c / length) : [0, 0];
  }
  const dot = (one, other) => one[0] * other[0] + one[1] * other[1];
  const ratio = (above, below) => (below !== 0 ? above / below : NaN);
  const noiseDeviation = (setting) => setting.sigma * setting.clip_norm / setting.batch;

  function noisy(setting, point, draw) {
    const stream = normals(setting.seed + 7919 * (draw + 1));
    const deviation = noiseDeviation(setting);
    return [point[0] + deviation * stream.next().value, point[1] + deviation * stream.next().value];
  }
  function roughEpsilon(setting) {
    const a = setting.steps * (setting.batch / RECORDS / setting.sigma) ** 2 / 2;
    return a + 2 * Math.sqrt(a * Math.log(1 / DELTA));
  }

  function readouts(setting, cloud) {
    const after = clipped(cloud, setting.rule, setting.clip_norm);
    const raw = mean(cloud.points, cloud.weights), kept = mean(after, cloud.weights);
    const deviation = noiseDeviation(setting), noise = deviation * Math.sqrt(DIMENSIONS);
    const rare = direction(cloud, true), common = direction(cloud, false);
    return {
      bias: ratio(Math.hypot(kept[0] - raw[0], kept[1] - raw[1]), Math.hypot(...raw)),
      cosine: ratio(dot(kept, raw), Math.hypot(...kept) * Math.hypot(...raw)),
      kept_rare: ratio(dot(kept, rare), dot(raw, rare)),
      kept_common: ratio(dot(kept, common), dot(raw, common)),
      noise_norm: noise,
      signal_to_noise: ratio(Math.hypot(...kept), noise),
      rare_after: ratio(dot(kept, rare) * Math.sqrt(setting.steps), deviation),
      epsilon: roughEpsilon(setting),
    };
  }

  return { synthetic, clipped, mean, noisy, readouts, RULES: [...Object.keys(WEIGHTS), "per_layer"] };
})();
