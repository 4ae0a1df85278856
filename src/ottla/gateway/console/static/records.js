import { html, useEffect, useRef, useState } from "./preact.js";
import { address, get, path, query, useApi } from "./api.js";
import { Action } from "./action.js";
import { bytes, count, hex, line, moment, number, pretty } from "./format.js";
import { Asked, Command, Facts, Field, link, Panel, Problem, State, Table } from "./parts.js";

const MOST_LIVE = 500;
const key = (row) => `${row.partition}@${row.offset}`;
const reason = (row) => row.headers["dead-letter.reason"] || row.headers["__connect.errors.exception.message"] || row.headers["kafka_dlt-exception-message"];
const part = (row, name) => (row[name] === null ? html`<span class="muted">null</span>`
  : html`<span class=${row[`${name}_encoding`] === "base64" ? "muted" : ""}>${line(row[name])}</span>`);

const parse = (text) => { try { return { value: JSON.parse(text) }; } catch { return { value: text, encoding: "text" }; } };

function headersIn(text) {
  const pairs = text.split("\n").map((row) => row.trim()).filter(Boolean).map((row) => row.split(/=(.*)/s).slice(0, 2));
  return Object.fromEntries(pairs.map(([name, value]) => [name, value || ""]));
}

const sendForm = (given, change) => html`
  <div class="row">
    <${Field} label="Key" note="Text; empty for none"><input onInput=${(e) => change({ key: e.currentTarget.value || null, key_encoding: "text" })} /><//>
    <${Field} label="Partition" note="Empty: by the key"><input type="number" min="0" onInput=${(e) => change({ partition: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) })} /><//>
  </div>
  <${Field} label="Value" note="JSON, or any other text"><textarea rows="6" class="mono" spellcheck="false" onInput=${(e) => { const { value, encoding } = parse(e.currentTarget.value); change({ value, value_encoding: encoding }); }}></textarea><//>
  <${Field} label="Headers" note="name=value, one on each line"><textarea rows="2" class="mono" spellcheck="false" onInput=${(e) => change({ headers: headersIn(e.currentTarget.value) })}></textarea><//>`;

const redriveForm = (given, change) => html`
  <${Field} label="To the topic" note="Empty: where each record came from"><input onInput=${(e) => change({ records: given.records.map((each) => ({ ...each, to: e.currentTarget.value || null })) })} /><//>`;

const Row = ({ row, name, chosen, onChoose, hasReason }) => html`
  <tr>
    ${hasReason && html`<td><input type="checkbox" aria-label=${`Choose ${key(row)}`} checked=${chosen} onChange=${onChoose} /></td>`}
    <th scope="row" class="mono nowrap"><a href=${link("topics", name, "records", row.partition, row.offset)}>${row.partition}@${row.offset}</a></th>
    <td class="mono nowrap">${moment(row.timestamp)}</td>
    <td class="mono clip">${part(row, "key")}</td>
    <td class="mono clip wide">${part(row, "value")}${row.value_schema_id ? html` <small class="muted">schema ${row.value_schema_id}</small>` : ""}</td>
    ${hasReason && html`<td class="clip">${reason(row) || ""}</td>`}
  </tr>`;

function RecordTable({ rows, name, chosen, onChoose }) {
  const hasReason = rows.some(reason);
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Records">
      <table class="records"><caption class="unseen">Records of ${name}</caption>
        <thead><tr>${hasReason && html`<th scope="col"><span class="unseen">Choose</span></th>`}<th scope="col">Place</th><th scope="col">Time</th><th scope="col">Key</th><th scope="col">Value</th>${hasReason && html`<th scope="col">Why it failed</th>`}</tr></thead>
        <tbody>${rows.map((row) => html`<${Row} key=${key(row)} row=${row} name=${name} hasReason=${hasReason} chosen=${chosen.has(key(row))} onChoose=${() => onChoose(row)} />`)}</tbody>
      </table>
    </div>`;
}

function useTail(name, view, isLive) {
  const [state, setState] = useState({ rows: [], words: "", seen: 0 });
  useEffect(() => {
    if (!isLive) return undefined;
    setState({ rows: [], words: "Connecting…", seen: 0 });
    const source = new EventSource(address(`${path("topics", name)}/events${query({ partition: view.partition, where: conditions(view.where) })}`));
    let waiting = [];
    const timer = setInterval(() => {
      if (!waiting.length || document.hidden) return;
      const fresh = waiting.reverse(); waiting = [];
      setState((old) => ({ rows: [...fresh, ...old.rows].slice(0, MOST_LIVE), words: "Waiting for records…", seen: old.seen + fresh.length }));
    }, 250);
    source.onopen = () => setState((old) => ({ ...old, words: "Waiting for records…" }));
    source.onmessage = (event) => { waiting.push(JSON.parse(event.data)); if (waiting.length > MOST_LIVE) waiting.shift(); };
    source.onerror = () => setState((old) => ({ ...old, words: "The connection is lost; trying again…" }));
    source.addEventListener("error", (event) => { if (event.data) setState((old) => ({ ...old, words: `Ended: ${JSON.parse(event.data).message}` })); });
    return () => { source.close(); clearInterval(timer); };
  }, [name, view.partition, view.where, isLive]);
  return state;
}

const conditions = (text) => text.split(/\s+AND\s+/).join("\n");
const asked = (view) => ({ from: view.from === "offset" || view.from === "time" ? view.at : view.from, partition: view.partition, where: conditions(view.where), by_key: view.by_key, limit: view.by_key ? 500 : null });

function SearchForm({ view, partitions, onSearch, isLive, onLive }) {
  const [draft, setDraft] = useState(view);
  const set = (change) => setDraft({ ...draft, ...change });
  const input = (name) => (event) => set({ [name]: event.currentTarget.value });
  const at = draft.from === "time" ? "datetime-local" : "number";
  const submit = (event) => {
    event.preventDefault();
    const when = draft.from === "time" && draft.local ? new Date(draft.local).toISOString() : draft.at;
    onSearch({ ...draft, at: when });
  };
  return html`
    <form class="finder" onSubmit=${submit} role="search" aria-label="Find records">
      <${Field} label="From"><select value=${draft.from} onChange=${input("from")}>
        <option value="newest">the newest</option><option value="earliest">the oldest</option><option value="offset">an offset</option><option value="time">a time</option></select><//>
      ${draft.from === "offset" && html`<${Field} label="Offset"><input type=${at} min="0" required value=${draft.at} onInput=${input("at")} /><//>`}
      ${draft.from === "time" && html`<${Field} label="Time"><input type=${at} step="1" required value=${draft.local || ""} onInput=${input("local")} /><//>`}
      <${Field} label="Partition"><input type="number" min="0" max=${partitions - 1} placeholder="all" value=${draft.partition} onInput=${input("partition")} /><//>
      <div class="grow"><${Field} label="Containing"><input class="search" value=${draft.where} onInput=${input("where")} spellcheck="false" placeholder="text, key=42, value.status=failed, header.trace~^a AND …" /><//></div>
      <label class="check"><input type="checkbox" checked=${draft.by_key} onChange=${(e) => set({ by_key: e.currentTarget.checked, from: "newest" })} /> Newest of each key</label>
      <div class="tools">
        <button type="submit" class="main">Search</button>
        <button type="button" aria-pressed=${isLive ? "true" : "false"} onClick=${() => { onSearch(draft); onLive(!isLive); }}>${isLive ? "Stop the tail" : "Live tail"}</button>
      </div>
    </form>`;
}

const START = { from: "newest", at: "", partition: "", where: "", by_key: false };

export function Records({ name, count: partitions, place = [] }) {
  if (place.length === 2) return html`<${Record} name=${name} partition=${place[0]} offset=${place[1]} />`;
  return html`<${Finder} name=${name} partitions=${partitions} />`;
}

function Finder({ name, partitions }) {
  const [view, setView] = useState(START);
  const [found, setFound] = useState({ records: [], scanned: 0, remaining: 0, cursor: null, command: "", isNew: true });
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [isLive, setLive] = useState(false);
  const [chosen, setChosen] = useState(new Map());
  const turn = useRef(0);
  const tail = useTail(name, view, isLive);
  const search = async (wanted, cursor) => {
    const mine = (turn.current += 1);
    setBusy(true); setError(null);
    try {
      const more = await get(`${path("topics", name)}/records${query({ ...asked(wanted), cursor })}`);
      if (mine !== turn.current) return;
      setFound((old) => (cursor ? { ...more, records: [...old.records, ...more.records], scanned: old.scanned + more.scanned } : more));
    } catch (problem) { if (mine === turn.current) setError(problem); }
    if (mine === turn.current) setBusy(false);
  };
  useEffect(() => { setView(START); setChosen(new Map()); search(START, ""); return () => { turn.current += 1; }; }, [name]);
  const onSearch = (wanted) => { setView(wanted); setChosen(new Map()); search(wanted, ""); };
  const choose = (row) => { const next = new Map(chosen); if (!next.delete(key(row))) next.set(key(row), row); setChosen(next); };
  const rows = isLive ? tail.rows : found.records;
  const letters = [...chosen.values()].map(({ partition, offset }) => ({ partition, offset }));
  return html`<div class="page">
    <${SearchForm} view=${view} partitions=${partitions} onSearch=${onSearch} isLive=${isLive} onLive=${setLive} />
    <${Problem} error=${error} />
    <div class="bar">
      <span role="status" class="muted">${isLive ? `${tail.words} ${count(tail.seen, "record")} so far.`
        : busy ? "Searching…" : `${count(found.records.length, "record")} of ${count(found.scanned, "record")} looked at.${view.by_key && found.remaining ? ` ${count(found.remaining, "older offset")} were not.` : ""}`}</span>
      <span class="tools">
        ${letters.length > 0 && html`<${Action} label=${`Redrive ${count(letters.length, "record")}`} kind="main" action="redrive" verb="Send them" body=${{ topic: name, records: letters }} form=${redriveForm} />`}
        <a class="button" href=${address(`${path("topics", name)}/export${query({ ...asked(view), by_key: false, limit: null })}`)} download>Export</a>
        <${Action} label="Send a record" action="send-record" verb="Send it" body=${{ topic: name, value: "" , value_encoding: "text" }} form=${sendForm} onDone=${() => search(view, "")} />
      </span>
    </div>
    ${rows.length ? html`<${RecordTable} rows=${rows} name=${name} chosen=${chosen} onChoose=${choose} />`
      : !busy && !error && !isLive && html`<p class="empty">${view.where ? "No record matches." : "There is no record here."}</p>`}
    ${!isLive && found.cursor && html`<div class="bar"><button type="button" disabled=${busy} onClick=${() => search(view, found.cursor)}>
      ${found.is_cut_short ? "Search on" : "More"}</button><span class="muted">${count(found.remaining, "offset")} not looked at yet</span></div>`}
    <${Command} line=${found.command} /></div>`;
}

const Part = ({ row, name }) => html`
  <${Panel} name=${name === "key" ? "Key" : "Value"} tools=${html`<small class="muted">${bytes(row[`${name}_size`])}${row[`${name}_schema_id`] ? `, schema ${row[`${name}_schema_id`]}` : row[`${name}_encoding`] ? `, ${row[`${name}_encoding`]}` : row[name] === null ? "" : ", JSON"}</small>`}>
    ${row[`${name}_problem`] && html`<p class="note">${row[`${name}_problem`]}</p>`}
    ${row[name] === null ? html`<p class="empty">null</p>` : html`<pre tabindex="0">${pretty(row[name])}</pre>`}
    ${row[`${name}_bytes`] && html`<details><summary>Bytes</summary><pre tabindex="0">${hex(row[`${name}_bytes`].base64)}</pre></details>`}
  <//>`;

const editForm = (row) => (given, change) => {
  const letter = given.records[0];
  const set = (values) => change({ records: [{ ...letter, ...values }] });
  return html`
    <${Field} label="To the topic"><input value=${letter.to} onInput=${(e) => set({ to: e.currentTarget.value })} /><//>
    <${Field} label="Value" note="As it was, or corrected"><textarea rows="8" class="mono" spellcheck="false" onInput=${(e) => { const { value, encoding } = parse(e.currentTarget.value); set({ value, value_encoding: encoding }); }}>${row.value === null ? "" : pretty(row.value)}</textarea><//>`;
};

function Origin({ row, name }) {
  const { topic, partition, offset, reason: why } = row.origin;
  return html`<div class="page">
    <${Panel} name="Dead letter" tools=${html`<${Action} label="Edit and redrive" kind="main" action="redrive" verb="Send it" body=${{ topic: name, records: [{ partition: row.partition, offset: row.offset, to: topic || "" }] }} form=${editForm(row)} />`}>
      <p><strong>${why || "It does not say why it failed."}</strong></p>
      ${topic && html`<p class="muted">From ${offset !== null && partition !== null ? html`<a href=${link("topics", topic, "records", partition, offset)}>${topic} ${partition}@${offset}</a>` : topic}</p>`}
    <//></div>`;
}

function Record({ name, partition, offset }) {
  const record = useApi(path("topics", name, "partitions", partition, "records", offset));
  const at = Number(offset);
  return html`<div class="page">
    <div class="bar"><a href=${link("topics", name)}>Back to the records</a>
      <span class="tools">${at > 0 && html`<a class="button" href=${link("topics", name, "records", partition, at - 1)}>Previous</a>`}
        <a class="button" href=${link("topics", name, "records", partition, at + 1)}>Next</a></span></div>
    <${Asked} of=${record}>${(row) => html`
      <${Facts} items=${[["Partition", row.partition], ["Offset", number(row.offset)], ["Time", moment(row.timestamp)], ["Size", bytes(row.key_size + row.value_size)]]} />
      ${row.origin && html`<${Origin} row=${row} name=${name} />`}
      <${Part} row=${row} name="key" /><${Part} row=${row} name="value" />
      <${Panel} name="Headers"><${Table} name="Headers" rows=${Object.entries(row.headers)} empty="It has no headers." columns=${[
        { label: "Name", kind: "mono", show: ([header]) => header }, { label: "Value", kind: "mono wrap", show: ([, value]) => line(value, 2000) }]} /><//>
      <${Command} line=${row.command} />`}<//></div>`;
}
