// The parts that all pages are made of.
import { html, useEffect, useRef, useState } from "./preact.js";
import { number } from "./format.js";

export const link = (...parts) => `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

export const Title = ({ text, under, children }) => html`
  <header class="title">
    <div><h1 tabindex="-1">${text}</h1>${under && html`<p class="under">${under}</p>`}</div>
    <div class="tools">${children}</div>
  </header>`;

export const Panel = ({ name, tools, children, id }) => html`
  <section class="panel" aria-label=${name} id=${id}>
    <div class="panel-head"><h2>${name}</h2><div class="tools">${tools}</div></div>
    ${children}
  </section>`;

export const Facts = ({ items }) => html`
  <dl class="facts">${items.filter(Boolean).map(([name, value, note]) => html`
    <div><dt>${name}</dt><dd>${value}${note && html` <small>${note}</small>`}</dd></div>`)}</dl>`;

// States are words; the colour only helps.
export const State = ({ kind = "quiet", children }) => html`<span class=${`state ${kind}`}>${children}</span>`;

export const Problem = ({ error, at }) => error && html`
  <div class="problem" role="alert">
    <strong>${error.status === 403 ? "Not allowed." : error.status === 404 ? "Not found." : "That did not work."}</strong>
    ${" "}${error.message}${error.kafkaError ? ` (${error.kafkaError})` : ""}
    ${at ? html`<span class="muted"> Shown is what was known at ${new Date(at).toLocaleTimeString()}.</span>` : ""}
  </div>`;

export const Waiting = () => html`<p class="waiting" role="status">Asking the cluster…</p>`;

// The frame of something that is asked for: its problem, its waiting, or what it is.
export function Asked({ of, children }) {
  return html`<div class="asked">
    <${Problem} error=${of.error} at=${of.data ? of.at : 0} />
    ${of.data ? children(of.data) : of.error ? "" : html`<${Waiting} />`}</div>`;
}

export function Table({ name, columns, rows, empty = "There are none.", keyOf }) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${name}>
      <table>
        <caption class="unseen">${name}</caption>
        <thead><tr>${columns.map((each) => html`<th scope="col" class=${each.right ? "right" : ""}>${each.label}</th>`)}</tr></thead>
        <tbody>${rows.map((row, i) => html`
          <tr key=${keyOf ? keyOf(row) : i}>${columns.map((each, c) => {
            const shown = each.show(row);
            return c === 0 ? html`<th scope="row" class=${each.kind || ""}>${shown}</th>`
              : html`<td class=${`${each.right ? "right" : ""} ${each.kind || ""}`}>${shown}</td>`;
          })}</tr>`)}</tbody>
      </table>
    </div>`;
}

export function Pager({ facts, onPage, noun, busy }) {
  const { total, page, pages, per_page: per } = facts;
  if (!total) return "";
  const first = (page - 1) * per + 1;
  return html`
    <nav class="pager" aria-label="Pages">
      <span role="status">${number(first)}–${number(Math.min(total, page * per))} of ${number(total)} ${noun}</span>
      ${pages > 1 && html`<span class="tools">
        <button type="button" disabled=${page <= 1 || busy} onClick=${() => onPage(page - 1)}>Previous</button>
        <span class="muted">Page ${number(page)} of ${number(pages)}</span>
        <button type="button" disabled=${page >= pages || busy} onClick=${() => onPage(page + 1)}>Next</button>
      </span>`}
    </nav>`;
}

export function SearchBox({ label, value, onSearch }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const changed = (event) => {
    const now = event.currentTarget.value;
    setText(now);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(now), 200);
  };
  return html`<input type="search" class="search" aria-label=${label} placeholder=${`${label}  ( / )`} value=${text} onInput=${changed} />`;
}

export function Command({ line }) {
  const [copied, setCopied] = useState(false);
  if (!line) return "";
  const copy = async () => {
    try { await navigator.clipboard.writeText(line); setCopied(true); } catch { setCopied(false); }
  };
  return html`
    <div class="command">
      <span class="muted">On the command line <button type="button" class="quiet" onClick=${copy} aria-label="Copy the command">${copied ? "Copied" : "Copy"}</button></span>
      <code>${line}</code>
    </div>`;
}

// A dialog that keeps the focus, ends with Escape, and gives the focus back.
export function Dialog({ name, onClose, children, wide }) {
  const box = useRef(null);
  useEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-label=${name} onCancel=${(e) => { e.preventDefault(); onClose(); }}>
      <div class="panel-head"><h2>${name}</h2>
        <button type="button" class="quiet" onClick=${onClose} aria-label="Close">Close</button></div>
      ${children}
    </dialog>`;
}

export const Field = ({ label, note, children }) => html`
  <label class="field"><span>${label}</span>${children}${note && html`<small class="muted">${note}</small>`}</label>`;

export const Tabs = ({ name, items, now }) => html`
  <nav class="tabs" aria-label=${name}>${items.map(([key, label, href]) => html`
    <a href=${href} aria-current=${key === now ? "page" : null}>${label}</a>`)}</nav>`;
