// An action: what exactly would happen, the command that does the same, and the button that does it.
import { html, useEffect, useState } from "./preact.js";
import { act } from "./api.js";
import { number } from "./format.js";
import { Command, Dialog, Problem, Table, Waiting } from "./parts.js";

const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "number" ? number(value) : String(value));

function Plan({ plan, typed, onTyped }) {
  const names = plan.rows.length ? Object.keys(plan.rows[0]) : [];
  return html`<div>
    <p class=${plan.is_destructive ? "warning" : ""}>${plan.what}</p>
    ${names.length > 0 && html`<${Table} name="In detail" rows=${plan.rows.slice(0, 200)}
      columns=${names.map((name) => ({ label: name, right: typeof plan.rows[0][name] === "number", show: (row) => shown(row[name]) }))} />`}
    <${Command} line=${plan.command} />
    ${plan.refusal && html`<p class="note" role="status">Nothing can be changed here: ${plan.refusal}.</p>`}
    ${plan.may_write && plan.is_destructive && plan.name && html`
      <label class="field"><span>Type <strong>${plan.name}</strong> to go on</span>
        <input value=${typed} onInput=${(e) => onTyped(e.currentTarget.value)} autocomplete="off" spellcheck="false" /></label>`}</div>`;
}

// `form` is for actions that need more to be told: it is given the present body and a way to change it.
export function ActionDialog({ name, action, body, form, verb = "Do it", onClose, onDone }) {
  const [given, setGiven] = useState(body);
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState(null);
  const preview = async () => {
    setError(null); setPlan(null); setBusy(true);
    try { setPlan(await act(action, { ...given, preview: true })); } catch (problem) { setError(problem); }
    setBusy(false);
  };
  const carryOut = async () => {
    setError(null); setBusy(true);
    try { setDone(await act(action, given)); if (onDone) onDone(); } catch (problem) { setError(problem); }
    setBusy(false);
  };
  useEffect(() => { if (!form) preview(); }, []);
  const isReady = plan && plan.may_write && (!plan.is_destructive || !plan.name || typed === plan.name);
  const submit = (event) => { event.preventDefault(); if (plan && isReady) carryOut(); else if (!plan) preview(); };
  if (done) return html`<${Dialog} name=${name} onClose=${onClose}>
    <p role="status" class="done">${done.done}</p><${Command} line=${done.command} />
    <div class="buttons"><button type="button" class="main" onClick=${onClose}>Close</button></div><//>`;
  return html`
    <${Dialog} name=${name} onClose=${onClose} wide=${true}>
      <form onSubmit=${submit} novalidate>
        ${form && form(given, (change) => { setGiven({ ...given, ...change }); setPlan(null); })}
        <${Problem} error=${error} />
        ${busy && !plan && html`<${Waiting} />`}
        ${plan && html`<${Plan} plan=${plan} typed=${typed} onTyped=${setTyped} />`}
        <div class="buttons">
          <button type="button" onClick=${onClose}>Cancel</button>
          ${plan ? html`<button type="submit" class=${plan.is_destructive ? "danger" : "main"} disabled=${!isReady || busy}>${busy ? "Working…" : verb}</button>`
            : form && html`<button type="submit" class="main" disabled=${busy}>Show what would happen</button>`}
        </div>
      </form>
    <//>`;
}

// The window of an action belongs to the frame: the row whose button opened it may vanish meanwhile.
let open = () => {};

export function ActionPlace() {
  const [given, setGiven] = useState(null);
  open = setGiven;
  return given && html`<${ActionDialog} key=${given.turn} ...${given} onClose=${() => setGiven(null)} />`;
}

let turn = 0;

// A button that opens an action.
export const Action = ({ label, kind = "", ...rest }) => html`
  <button type="button" class=${kind} onClick=${() => { turn += 1; open({ ...rest, name: label, turn }); }}>${label}</button>`;
