// One line over time, as SVG. Points that are null leave a gap.
import { html } from "./preact.js";
import { clock } from "./format.js";

const W = 560, H = 110, LEFT = 4, TOP = 14, BOTTOM = 18;

function lines(times, values, top) {
  const from = times[0], span = Math.max(1, times[times.length - 1] - from);
  const x = (t) => LEFT + ((t - from) / span) * (W - 2 * LEFT);
  const y = (v) => H - BOTTOM - (v / top) * (H - TOP - BOTTOM);
  const runs = [];
  let run = null;
  times.forEach((t, i) => {
    if (values[i] === null || values[i] === undefined) { run = null; return; }
    if (!run) runs.push((run = []));
    run.push([x(t).toFixed(1), y(values[i]).toFixed(1)]);
  });
  return runs;
}

export function Chart({ name, times, values, show }) {
  const known = values.filter((v) => v !== null && v !== undefined);
  if (known.length < 2) return html`<p class="empty">${name}: the first numbers come within half a minute, and are kept while somebody looks.</p>`;
  const top = Math.max(...known, 1e-9), now = known[known.length - 1];
  const runs = lines(times, values, top);
  const base = H - BOTTOM;
  return html`
    <figure class="chart">
      <figcaption><span>${name}</span><strong>${show(now)}</strong></figcaption>
      <svg viewBox=${`0 0 ${W} ${H}`} role="img" aria-label=${`${name}: now ${show(now)}, at most ${show(Math.max(...known))} since ${clock(times[0])}`}>
        <line x1=${LEFT} y1=${base} x2=${W - LEFT} y2=${base} class="axis" />
        ${runs.map((run) => html`
          <path class="area" d=${`M${run[0][0]} ${base}L${run.map((p) => p.join(" ")).join("L")}L${run[run.length - 1][0]} ${base}Z`} />
          <path class="line" d=${`M${run.map((p) => p.join(" ")).join("L")}`} />`)}
        <text x=${LEFT} y="10">${show(Math.max(...known))}</text>
        <text x=${LEFT} y=${H - 4}>${clock(times[0])}</text>
        <text x=${W - LEFT} y=${H - 4} text-anchor="end">${clock(times[times.length - 1])}</text>
      </svg>
    </figure>`;
}
